// A server written with the TypeScript SDK of the second generation, `@modelcontextprotocol/server`.
//
//     node sdk2_server.js [http]
import { NodeStreamableHTTPServerTransport } from '@modelcontextprotocol/node';
import { McpServer, ResourceTemplate, completable } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import * as z from 'zod';

import { offer } from './offer.js';
import { serveHttp } from './serving.js';

function make() {
  const server = new McpServer(
    { name: 'interop', version: '1.2.3' },
    { capabilities: { logging: {}, resources: { subscribe: true } }, instructions: 'Call anything.' },
  );
  const subscribed = offer(server, {
    ResourceTemplate,
    shape: (members) => z.object(members),
    mood: (complete) => completable(z.string(), complete).optional(),
    progressOf: (ctx) => [ctx.mcpReq._meta?.progressToken, ctx.mcpReq.notify],
    signalOf: (ctx) => ctx.mcpReq.signal,
    log: (ctx, params) => ctx.mcpReq.log(params.level, params.data, params.logger),
    sample: (ctx, params) => ctx.mcpReq.requestSampling(params),
    elicit: (ctx, params) => ctx.mcpReq.elicitInput(params),
    roots: () => server.server.listRoots(),
  });
  server.server.setRequestHandler('resources/subscribe', ({ params }) => {
    subscribed.add(params.uri);
    return {};
  });
  server.server.setRequestHandler('resources/unsubscribe', ({ params }) => {
    subscribed.delete(params.uri);
    return {};
  });
  return server;
}

if (process.argv[2] === 'http') {
  serveHttp(make, { Transport: NodeStreamableHTTPServerTransport });
} else {
  serveStdio(make);
}
