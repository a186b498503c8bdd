// The TypeScript SDK before skills and before 2026-07-28; it sends skills requests by hand: node sdk1.mjs URL REFUSED…
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { z } from 'zod';
import { command, only, pages, url, walk } from './walk.mjs';

const client = new Client({ name: 'sdk1', version: '1' }, { capabilities: {} });
await client.connect(command ? new StdioClientTransport({ command, args: [] }) : new StreamableHTTPClientTransport(new URL(url)));
const ask = (method, params) => client.request({ method, params }, z.looseObject({}));
await walk({
  list: () => pages((cursor) => ask('skills/list', { cursor }), 'skills'),
  get: async (uri) => (await ask('skills/get', { uri })).skill,
  read: async (uri) => only(await client.readResource({ uri })),
  directory: (uri) => pages((cursor) => ask('resources/directory/read', { uri, cursor }), 'resources'),
});
await client.close();
