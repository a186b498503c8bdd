// The TypeScript SDK with its SkillsClient, which checks sizes, digests and frontmatter: node ts.mjs URL REFUSED…
// ERA=modern or legacy.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { SkillsClient } from '@modelcontextprotocol/client/ext/skills';
import { command, only, url, walk } from './walk.mjs';

const mode = process.env.ERA === 'legacy' ? 'legacy' : { pin: '2026-07-28' };
const client = new Client({ name: 'ts', version: '1' }, {
  versionNegotiation: { mode }, capabilities: { extensions: { 'io.modelcontextprotocol/skills': {} } } });
await client.connect(command ? new StdioClientTransport({ command, args: [] }) : new StreamableHTTPClientTransport(new URL(url)));
const skills = new SkillsClient(client);
await walk({
  list: async () => (await skills.list()).skills,
  get: async (uri) => (await skills.get(uri)).skill,
  // What the client would not read at all is asked for by its URI alone.
  read: async (uri, skill) => (skill ? skills.read(skill, uri) : only(await client.readResource({ uri }))),
  directory: async (uri) => (await skills.readDirectory(uri)).resources,
});
await client.close();
