// Skills on the official TypeScript SDK, without sessions, in pages of two: node ts.mjs PORT|stdio SKILLS
import { createServer } from 'node:http';
import { McpServer, createMcpHandler } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { loadSkills } from '@modelcontextprotocol/server/ext/skills/node';
import { toNodeHandler } from '@modelcontextprotocol/node';

const [port, folder] = process.argv.slice(2);
const skills = await loadSkills(folder, { pageSize: 2 });
const build = () => {
  const mcp = new McpServer({ name: 'ts', version: '1' }, { capabilities: { resources: {} } });
  skills.attach(mcp);
  return mcp;
};
if (port === 'stdio') serveStdio(build);
else createServer(toNodeHandler(createMcpHandler(build))).listen(Number(port), '127.0.0.1');
