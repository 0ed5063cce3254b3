// What both generations of the TypeScript SDK offer as servers; `sdk` settles where they differ.
import * as z from 'zod';

const PNG = Buffer.from('\x89PNG\r\n\x1a\n', 'latin1').toString('base64');
const WAV = Buffer.from('RIFF\x24\x00\x00\x00WAVE', 'latin1').toString('base64');

const number = z.number().int().describe('a number');
const words = z.string().describe('a text');
const text = (value, more = {}) => ({ content: [{ type: 'text', text: value }], ...more });
const starting = (values) => (typed) => values.filter((value) => value.startsWith(typed ?? ''));

// Ask by requests of the server's, each on its own.
export function askOnWire(requests) {
  return async (ctx, questions) => {
    const answers = {};
    for (const [name, { method, params }] of Object.entries(questions)) {
      answers[name] = await requests[method](ctx, params);
    }
    return { answers };
  };
}

export function offer(server, sdk, state = { cancelled: 0, waiting: 0, hasGrown: false }) {
  const subscribed = new Set();
  const tool = (name, members, run, more = {}) =>
    server.registerTool(name, { inputSchema: sdk.shape(members), description: name, ...more }, run);

  tool(
    'add',
    { a: number, b: number },
    ({ a, b }) => text(String(a + b), { structuredContent: { result: a + b } }),
    {
      title: 'Addition',
      annotations: { readOnlyHint: true },
      outputSchema: sdk.shape({ result: z.number().int() }),
    },
  );
  tool(
    'weather',
    { city: words },
    ({ city }) => {
      const told = { city, celsius: 21.5, sky: 'clear' };
      return text(JSON.stringify(told), { structuredContent: told });
    },
    { outputSchema: sdk.shape({ city: z.string(), celsius: z.number(), sky: z.enum(['clear', 'cloudy']) }) },
  );
  tool('echo', { text: words }, ({ text: value }) => text(value));
  tool('fail', {}, () => {
    throw new Error('the tool says no');
  });
  tool('count', { to: number }, async ({ to }, ctx) => {
    const [progressToken, notify] = sdk.progressOf(ctx);
    for (let step = 1; step <= to && progressToken !== undefined; step += 1) {
      const params = { progressToken, progress: step, total: to, message: `step ${step}` };
      await notify({ method: 'notifications/progress', params });
    }
    return text(`counted to ${to}`);
  });
  tool('wait', {}, async (_, ctx) => {
    const [progressToken, notify] = sdk.progressOf(ctx);
    if (progressToken !== undefined) {
      await notify({ method: 'notifications/progress', params: { progressToken, progress: 0 } });
    }
    return new Promise((resolve) => {
      const timer = setTimeout(() => resolve(text('waited')), 60_000);
      state.waiting += 1;
      sdk.signalOf(ctx).addEventListener('abort', () => {
        clearTimeout(timer);
        state.waiting -= 1;
        state.cancelled += 1;
        resolve(text('cancelled'));
      });
    });
  });
  tool('cancelled', {}, async () => {
    // Over HTTP a cancellation that was sent before may come on another connection, and later.
    for (let turn = 0; state.waiting > 0 && turn < 100; turn += 1) {
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    return text(String(state.cancelled));
  });
  tool('say', { level: words, text: words }, async ({ level, text: data }, ctx) => {
    await sdk.log(ctx, { level, data, logger: 'interop' });
    return text('said');
  });
  // `sdk.ask` has answers, by the names of the questions; or none yet, since they come with another
  // call, and then what this one returns.
  const asking = (questions, report) => async (args, ctx) => {
    const { answers, otherwise } = await sdk.ask(ctx, questions(args));
    return answers === undefined ? otherwise : text(report(answers));
  };
  const sampling = (question) => ({
    method: 'sampling/createMessage',
    params: {
      messages: [{ role: 'user', content: { type: 'text', text: question } }],
      maxTokens: 50,
      systemPrompt: 'Be brief.',
    },
  });
  const elicitation = (question) => ({
    method: 'elicitation/create',
    params: {
      mode: 'form',
      message: question,
      requestedSchema: {
        type: 'object',
        properties: { name: { type: 'string' }, age: { type: 'integer' } },
        required: ['name', 'age'],
      },
    },
  });
  const listing = { method: 'roots/list' };
  const introduced = ({ action, content }) => (action === 'accept' ? `${content.name} is ${content.age}` : action);
  const joined = ({ roots }) => roots.map((root) => root.uri).join(' ');
  tool(
    'ask_model',
    { question: words },
    asking(({ question }) => ({ model: sampling(question) }), ({ model }) => `${model.model}: ${model.content.text}`),
  );
  tool(
    'ask_user',
    { question: words },
    asking(({ question }) => ({ user: elicitation(question) }), ({ user }) => introduced(user)),
  );
  tool('folders', {}, asking(() => ({ roots: listing }), ({ roots }) => joined(roots)));
  tool(
    'ask_together',
    { question: words },
    asking(
      ({ question }) => ({ user: elicitation(question), roots: listing }),
      ({ user, roots }) => `${introduced(user)} in ${joined(roots)}`,
    ),
  );
  tool('media', {}, () => ({
    content: [
      { type: 'text', text: 'text' },
      { type: 'image', data: PNG, mimeType: 'image/png' },
      { type: 'audio', data: WAV, mimeType: 'audio/wav' },
      { type: 'resource', resource: { uri: 'memo://today', text: 'sunny', mimeType: 'text/plain' } },
      { type: 'resource_link', uri: 'memo://today', name: 'today' },
    ],
  }));
  const addExtra = () => tool('extra', {}, () => text('new'));
  // A server that is made anew for every request has to remember.
  if (state.hasGrown) addExtra();
  tool('grow', {}, () => {
    state.hasGrown = true;
    addExtra();
    state.notify?.toolsChanged();
    return text('grown');
  });
  tool('touch', { uri: words }, async ({ uri }) => {
    if (state.notify) state.notify.resourceUpdated(uri);
    else if (subscribed.has(uri) || sdk.isModern?.()) await server.server.sendResourceUpdated({ uri });
    return text('touched');
  });

  const held = (uri, mimeType, value) => ({ contents: [{ uri: uri.href, mimeType, ...value }] });
  server.registerResource('today', 'memo://today', { mimeType: 'text/plain' }, (uri) =>
    held(uri, 'text/plain', { text: 'sunny' }),
  );
  server.registerResource('logo', 'memo://logo', { mimeType: 'image/png' }, (uri) =>
    held(uri, 'image/png', { blob: PNG }),
  );
  server.registerResource(
    'note',
    new sdk.ResourceTemplate('memo://notes/{name}', {
      list: undefined,
      complete: { name: starting(['monday', 'moon', 'tuesday']) },
    }),
    { mimeType: 'text/plain' },
    (uri, { name }) => held(uri, 'text/plain', { text: `note ${name}` }),
  );
  server.registerPrompt(
    'greet',
    {
      description: 'Greet somebody.',
      argsSchema: sdk.shape({
        name: z.string(),
        mood: sdk.mood(starting(['happy', 'hungry', 'sad'])),
      }),
    },
    ({ name, mood = 'happy' }) => ({
      messages: [{ role: 'user', content: { type: 'text', text: `Greet ${name}, who is ${mood}.` } }],
    }),
  );
  const said = (role, content) => ({ role, content });
  server.registerPrompt('tour', { description: 'Show messages of every kind.' }, () => ({
    messages: [
      said('user', { type: 'text', text: 'Look.' }),
      said('assistant', { type: 'text', text: 'At what?' }),
      said('user', { type: 'resource', resource: { uri: 'memo://today', text: 'sunny', mimeType: 'text/plain' } }),
      said('user', { type: 'image', data: PNG, mimeType: 'image/png' }),
    ],
  }));
  return subscribed;
}
