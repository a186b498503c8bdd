// Loaded into every Node.js process: what would listen at every address of the machine listens at the loopback alone.
import { Server } from 'node:net';

const { listen } = Server.prototype;
Server.prototype.listen = function (port, ...rest) {
  const isAnywhere = typeof port === 'number' && typeof rest[0] !== 'string';
  return listen.call(this, isAnywhere ? { port, host: '127.0.0.1' } : port, ...rest);
};
