// How servers of both generations of the TypeScript SDK are served over HTTP, from one process:
// with sessions at /mcp and, always as JSON, at /json; without at /stateless; the older form with
// two endpoints at /sse; `others` have places of their own. The port is printed.
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';

// What was sent on streams, so that they can be taken up again.
class Kept {
  events = [];

  async storeEvent(stream, message) {
    this.events.push([stream, message]);
    return String(this.events.length);
  }

  async replayEventsAfter(last, { send }) {
    const [stream] = this.events[Number(last) - 1];
    for (const [index, [each, message]] of this.events.entries()) {
      if (index >= Number(last) && each === stream) await send(String(index + 1), message);
    }
    return stream;
  }
}

export function serveHttp(make, { Transport, OlderTransport, others = {} }) {
  const sessions = new Map();

  const withSession = async (request, response, options) => {
    let transport = sessions.get(request.headers['mcp-session-id']);
    if (transport === undefined && request.headers['mcp-session-id'] !== undefined) {
      response.writeHead(404).end();
      return;
    }
    if (transport === undefined) {
      transport = new Transport({
        sessionIdGenerator: randomUUID,
        onsessioninitialized: (id) => sessions.set(id, transport),
        onsessionclosed: (id) => sessions.delete(id),
        ...options,
      });
      await make().connect(transport);
    }
    await transport.handleRequest(request, response);
  };

  const alone = async (request, response) => {
    if (request.method !== 'POST') {
      response.writeHead(405).end();
      return;
    }
    const server = make();
    const transport = new Transport({ sessionIdGenerator: undefined });
    response.on('close', () => server.close());
    await server.connect(transport);
    await transport.handleRequest(request, response);
  };

  const older = async (request, response) => {
    const transport = new OlderTransport('/messages', response);
    sessions.set(transport.sessionId, transport);
    await make().connect(transport);
  };

  const serve = async (request, response) => {
    const { pathname, searchParams } = new URL(request.url, 'http://localhost');
    if (pathname in others) return others[pathname](request, response);
    if (pathname === '/mcp') return withSession(request, response, { eventStore: new Kept(), retryInterval: 10 });
    if (pathname === '/json') return withSession(request, response, { enableJsonResponse: true });
    if (pathname === '/stateless') return alone(request, response);
    if (pathname === '/sse' && request.method === 'GET' && OlderTransport) return older(request, response);
    const session = pathname === '/messages' && sessions.get(searchParams.get('sessionId'));
    if (session) return session.handlePostMessage(request, response);
    response.writeHead(request.method === 'POST' ? 405 : 404).end();
  };
  const server = createServer(serve);
  server.listen(0, '127.0.0.1', () => console.log(server.address().port));
}
