// A host that verifies nothing, on the TypeScript SDK's bare requests: node dumb.mjs URL REFUSED…
// ERA=modern or legacy. Under one of the conformance suite's scenarios it does what that scenario watches instead.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { z } from 'zod';
import { only, pages, url, walk } from './walk.mjs';

const mode = process.env.ERA === 'legacy' ? 'legacy' : { pin: '2026-07-28' };
const client = new Client({ name: 'dumb', version: '1' }, {
  versionNegotiation: { mode }, capabilities: { extensions: { 'io.modelcontextprotocol/skills': {} } } });
await client.connect(new StreamableHTTPClientTransport(new URL(url)));
const ask = (method, params) => client.request({ method, params }, z.looseObject({}));
const host = {
  list: () => pages((cursor) => ask('skills/list', { cursor }), 'skills'),
  get: async (uri) => (await ask('skills/get', { uri })).skill,
  read: async (uri) => only(await client.readResource({ uri })),
  directory: (uri) => pages((cursor) => ask('resources/directory/read', { uri, cursor }), 'resources'),
};
const scenario = process.env.MCP_CONFORMANCE_SCENARIO;
if (scenario) await load(scenario);
else await walk(host);
await client.close();

// Loads a skill as far as it can be read: its SKILL.md, then what that leads to.
async function load(scenario) {
  const [skill] = await host.list();
  if (scenario.endsWith('no-prefetch')) return;
  const files = skill.resources.map((file) => file.uri).filter((uri) => uri !== skill.uri);
  for (const uri of [skill.uri, ...files]) await host.read(uri);
}
