// Starts the gateway before one server, approves what that lists, and sends the host that verifies nothing to the gateway:
// node behind_gateway.mjs URL, with the program in PORTCULLIS. For the conformance suite, which starts hosts by itself.
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

const folder = mkdtempSync(join(tmpdir(), 'portcullis-'));
const config = join(folder, 'proxy.toml');
writeFileSync(config, `server.listen = "127.0.0.1:0"\nadmin.listen = "127.0.0.1:0"\n[[origin]]\nlabel = "suite"\nurl = "${process.argv[2]}"\n`);
const portcullis = (...command) => execFileSync(process.env.PORTCULLIS, ['--config', config, '--json', ...command], { encoding: 'utf8' });

const gateway = spawn(process.env.PORTCULLIS, ['--config', config, 'serve'], { stdio: ['ignore', 'pipe', 'inherit'] });
try {
  const { value: ready } = await createInterface(gateway.stdout)[Symbol.asyncIterator]().next();
  const url = ready.match(/mcp=(\S+)/)[1];
  await approveAll();
  const host = spawnSync(process.execPath, [join(dirname(fileURLToPath(import.meta.url)), 'dumb.mjs'), url], { stdio: 'inherit' });
  process.exitCode = host.status;
} finally {
  gateway.kill();
  await once(gateway, 'exit');
}

async function approveAll() {
  for (let skills = []; ; await sleep(50)) {
    skills = JSON.parse(portcullis('skills'));
    for (const { label, uri, set } of skills) portcullis('approve', `${label}/${uri.slice('skill://'.length, -'/SKILL.md'.length)}`, '--set', set);
    if (skills.length) return;
  }
}
