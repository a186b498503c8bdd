// Skills on @olaservo/ext-skills: node olaservo.mjs PORT SKILLS
import { createServer } from 'node:http';
import { McpServer, createMcpHandler } from '@modelcontextprotocol/server';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { discoverSkills, registerSkillResources } from '@olaservo/ext-skills/server';

const [port, folder] = process.argv.slice(2);
const skills = discoverSkills(folder);
const build = () => {
  const mcp = new McpServer({ name: 'olaservo', version: '1' }, { capabilities: { resources: {} } });
  registerSkillResources(mcp, skills, folder, { template: true, directoryRead: true, ttlMs: 60000, cacheScope: 'public' });
  return mcp;
};
createServer(toNodeHandler(createMcpHandler(build))).listen(Number(port), '127.0.0.1');
