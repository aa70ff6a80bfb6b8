// oidc-provider, a certified implementation of OpenID Connect, with its own pages to sign in and to consent.
// USERS is a JSON file with the claims of each person; who is not in it cannot sign in, and was revoked.
import { readFileSync } from "node:fs";
import { Provider } from "oidc-provider";

const { ISSUER, PORT, SERVER, USERS, SECRET } = process.env;
const provider = new Provider(ISSUER, {
  clients: [{
    client_id: "retentive",
    client_secret: SECRET,
    grant_types: ["authorization_code", "refresh_token"],
    redirect_uris: [`${SERVER}/console/login/test/callback`],
    post_logout_redirect_uris: [`${SERVER}/console/login`],
  }],
  claims: { openid: ["sub"], groups: ["groups"] },
  pkce: { required: () => true },
  cookies: { keys: ["test"] },
  issueRefreshToken: async () => true,
  rotateRefreshToken: true,
  findAccount(_, sub) {
    const claims = JSON.parse(readFileSync(USERS, "utf-8"))[sub];
    return claims && { accountId: sub, claims: async () => ({ sub, ...claims }) };
  },
});
provider.listen(Number(PORT), "127.0.0.1", () => console.log("listening"));
