// Skills beside tools, prompts and resources on the official TypeScript SDK: node ts-everything.mjs PORT SKILLS
// Modern requests need no session; the older revisions have sessions whose streams can be taken up again.
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { McpServer, classifyInboundRequest, createMcpHandler, isInitializeRequest } from '@modelcontextprotocol/server';
import { loadSkills } from '@modelcontextprotocol/server/ext/skills/node';
import { NodeStreamableHTTPServerTransport, localhostHostValidation, localhostOriginValidation, toNodeHandler } from '@modelcontextprotocol/node';

const [port, folder] = process.argv.slice(2);
const skills = await loadSkills(folder);
const sessions = new Map();

function build() {
  const mcp = new McpServer({ name: 'ts-everything', version: '1' }, {
    capabilities: { tools: { listChanged: true }, prompts: { listChanged: true }, resources: { subscribe: true, listChanged: true } } });
  mcp.registerTool('ping', { description: 'Answers pong' }, () => ({ content: [{ type: 'text', text: 'pong' }] }));
  mcp.registerPrompt('greet', { description: 'A greeting' }, () => ({ messages: [{ role: 'user', content: { type: 'text', text: 'Hello' } }] }));
  mcp.registerResource('note', 'note://here/note', { mimeType: 'text/plain' }, (uri) => ({ contents: [{ uri: uri.href, text: 'A note.' }] }));
  skills.attach(mcp);
  return mcp;
}

// Every event of every stream, so that a stream can be taken up again.
const events = [];
const eventStore = {
  async storeEvent(stream, message) {
    const id = `${stream}::${String(events.length).padStart(9, '0')}`;
    events.push({ id, stream, message });
    return id;
  },
  async replayEventsAfter(last, { send }) {
    const [stream] = last.split('::');
    for (const event of events) if (event.stream === stream && event.id > last && Object.keys(event.message ?? {}).length) await send(event.id, event.message);
    return stream;
  },
};

const modern = toNodeHandler(createMcpHandler(build));
const isHostAllowed = localhostHostValidation();
const isOriginAllowed = localhostOriginValidation();

createServer(async (request, response) => {
  if (!isHostAllowed(request, response) || !isOriginAllowed(request, response)) return;
  const body = await jsonOf(request);
  const { headers } = request;
  const inbound = classifyInboundRequest({ httpMethod: request.method, protocolVersionHeader: headers['mcp-protocol-version'],
    mcpMethodHeader: headers['mcp-method'], body });
  if (inbound.kind !== 'legacy') return modern(request, response, body);
  const id = headers['mcp-session-id'];
  const session = sessions.get(id) ?? (!id && isInitializeRequest(body) ? await newSession() : undefined);
  if (session) return session.handleRequest(request, response, body);
  response.writeHead(id ? 404 : 400, { 'content-type': 'application/json' });
  response.end(JSON.stringify({ jsonrpc: '2.0', id: null, error: { code: id ? -32001 : -32000, message: 'No such session' } }));
}).listen(Number(port), '127.0.0.1');

async function jsonOf(request) {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  try { return JSON.parse(Buffer.concat(chunks)); } catch { return undefined; }
}

async function newSession() {
  const session = new NodeStreamableHTTPServerTransport({ sessionIdGenerator: () => randomUUID(), eventStore, retryInterval: 5000,
    onsessioninitialized: (id) => sessions.set(id, session) });
  session.onclose = () => sessions.delete(session.sessionId);
  await build().connect(session);
  return session;
}
