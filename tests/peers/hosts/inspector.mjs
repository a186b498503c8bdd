// The MCP Inspector's command line, one command a step; files are read and checked by its `--verify`:
// node inspector.mjs URL REFUSED…, with ERA=modern or legacy.
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { command, pages, url, walk } from './walk.mjs';

process.env.HOME = mkdtempSync(join(tmpdir(), 'inspector-')); // It keeps settings there.
const { runCli } = await import('../node_modules/@modelcontextprotocol/inspector/clients/cli/build/index.js');
const write = process.stdout.write;
const endpoint = command ? [command] : ['--server-url', url, '--transport', 'http'];

// What a command prints, one JSON value a line; that a check failed is in there too.
async function run(method, ...options) {
  let printed = '';
  process.stdout.write = (text, ...rest) => { printed += text; rest.at(-1)?.(); return true; };
  try {
    await runCli(['node', 'inspector', ...endpoint, '--protocol-era', process.env.ERA,
      '--quiet', '--format', 'json', '--method', method, ...options]);
  } catch (e) {
    if (!printed) throw e;
  } finally {
    process.stdout.write = write;
  }
  return printed.trim().split('\n').filter(Boolean).map((line) => JSON.parse(line));
}

const result = async (...command) => (await run(...command))[0].result;
const reports = new Map();
await walk({
  async list() {
    const { skills } = await result('skills/list');
    for (const report of await run('skills/list', '--verify')) reports.set(report.uri, report);
    return skills;
  },
  get: async (uri) => (await result('skills/get', '--uri', uri)).skill,
  read: async (uri, skill) => (skill ? checked(uri, reports.get(skill.uri)) : (await result('resources/read', '--uri', uri)).contents[0]),
  directory: (uri) => pages((cursor) => result('resources/directory/read', '--uri', uri, ...(cursor ? ['--cursor', cursor] : [])), 'resources'),
});

// A file, if the report on its skill found nothing wrong.
function checked(uri, report) {
  if (!report.ok) throw new Error(`${report.outcome}: ${JSON.stringify(report.conformance.concat(report.frontmatter))}`);
  const { actualSize: size, actualDigest: digest } = report.files.find((file) => file.uri === uri);
  return { size, digest };
}
