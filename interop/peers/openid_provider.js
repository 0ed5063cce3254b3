// An OpenID provider with one client: node openid_provider.js PORT REDIRECT_URI
import { Provider } from "oidc-provider";

const [port, redirectUri] = process.argv.slice(2);

const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: [
    {
      client_id: "desk",
      client_secret: "a secret of the desk, long enough",
      redirect_uris: [redirectUri],
      grant_types: ["authorization_code", "refresh_token"],
    },
  ],
  cookies: { keys: ["a key of the cookies"] },
  claims: { openid: ["sub"], email: ["email", "email_verified"], profile: ["name"] },
  findAccount: (_, id) => ({
    accountId: id,
    claims: () => ({ sub: id, name: id, email: `${id}@example.com`, email_verified: true }),
  }),
  issueRefreshToken: () => true,
  rotateRefreshToken: true,
  pkce: { required: () => true },
});

provider.listen(Number(port), "127.0.0.1");
