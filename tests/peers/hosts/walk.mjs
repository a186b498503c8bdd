// Takes every step that a host can take, and prints what it saw as one line of JSON: step -> {ok} or {error}.
//
// A host has `list`, `get`, `read` and `directory`. The command line is the endpoint, a URL or `command:` and a program to
// start, and skills that have to be refused.
// Whether what was seen is right is not decided here.
import { createHash } from 'node:crypto';

export const [url, ...refused] = process.argv.slice(2);
export const command = url.startsWith('command:') ? url.slice('command:'.length) : undefined;
const seen = {};

export async function walk(host) {
  const skills = (await step('list', async () => ordered(await host.list(), (skill) => skill.uri))) ?? [];
  for (const skill of skills) {
    await step(`get ${skill.uri}`, () => host.get(skill.uri));
    for (const { uri } of skill.resources) await step(`read ${uri}`, async () => content(await host.read(uri, skill)));
    await directories(host, skill.uri.replace(/\/SKILL\.md$/, ''));
  }
  for (const uri of refused) {
    await step(`get ${uri}`, () => host.get(uri));
    await step(`read ${uri}`, async () => content(await host.read(uri)));
  }
  console.log(JSON.stringify(seen));
}

// Runs a step and notes its outcome; gives what came, if it came.
async function step(name, take) {
  try {
    const ok = await take();
    seen[name] = { ok };
    return ok;
  } catch (e) {
    seen[name] = { error: { code: e.code, reason: e.data?.['dev.portcullis/reason'], message: String(e.message ?? e) } };
  }
}

async function directories(host, uri) {
  const children = await step(`directory ${uri}`, async () => ordered(await host.directory(uri), (child) => child.uri));
  for (const child of children ?? []) if (child.mimeType === 'inode/directory') await directories(host, child.uri);
}

// One item of `contents`, or what a verifying client makes of it.
function content({ text, blob, bytes, ...checked }) {
  if (checked.digest) return checked;
  const held = bytes ? Buffer.from(bytes) : text === undefined ? Buffer.from(blob, 'base64') : Buffer.from(text, 'utf8');
  return { size: held.length, digest: `sha256:${createHash('sha256').update(held).digest('hex')}` };
}

function ordered(items, key) {
  return [...items].sort((a, b) => (key(a) < key(b) ? -1 : 1));
}

// The one item of an answer to resources/read.
export function only({ contents }) {
  if (contents.length !== 1) throw new Error(`${contents.length} items in one answer`);
  return contents[0];
}

// All items of a listing, over its pages.
export async function pages(ask, member) {
  const items = [];
  for (let cursor; ; ) {
    const page = await ask(cursor);
    items.push(...page[member]);
    cursor = page.nextCursor;
    if (cursor === undefined) return items;
  }
}
