--
-- PostgreSQL database dump
--


-- Dumped from database version 15.18 (Debian 15.18-0+deb12u1)
-- Dumped by pg_dump version 15.18 (Debian 15.18-0+deb12u1)

SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

SET default_tablespace = '';

SET default_table_access_method = heap;

--
-- Name: memories; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.memories (
    store bigint NOT NULL,
    path text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL COLLATE pg_catalog."C",
    version text NOT NULL COLLATE pg_catalog."C",
    text_of text NOT NULL COLLATE pg_catalog."C",
    size_bytes bigint NOT NULL,
    sha256 text NOT NULL COLLATE pg_catalog."C",
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    seal bytea,
    provenance text,
    mark text COLLATE pg_catalog."C"
);


--
-- Name: records; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.records (
    store bigint NOT NULL,
    kind text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    value text NOT NULL
);


--
-- Name: retentive_schema; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.retentive_schema (
    number integer NOT NULL,
    applied_at bigint
);


--
-- Name: stores; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.stores (
    no bigint NOT NULL,
    id text NOT NULL COLLATE pg_catalog."C",
    workspace text NOT NULL COLLATE pg_catalog."C",
    store_key text COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    created_at bigint NOT NULL,
    revision bigint NOT NULL,
    memories bigint NOT NULL,
    size_bytes bigint NOT NULL,
    last_at bigint NOT NULL,
    seal text,
    settings text,
    properties text,
    erased_at bigint,
    erased_by text COLLATE pg_catalog."C"
)
WITH (fillfactor='50');


--
-- Name: stores_no_seq; Type: SEQUENCE; Schema: public; Owner: -
--

ALTER TABLE public.stores ALTER COLUMN no ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.stores_no_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: versions; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.versions (
    store bigint NOT NULL,
    id text NOT NULL COLLATE pg_catalog."C",
    memory text NOT NULL COLLATE pg_catalog."C",
    operation text NOT NULL COLLATE pg_catalog."C",
    path text NOT NULL COLLATE pg_catalog."C",
    size_bytes bigint,
    sha256 text COLLATE pg_catalog."C",
    actor text COLLATE pg_catalog."C",
    created_at bigint NOT NULL,
    revision bigint NOT NULL,
    seal bytea,
    redacted_at bigint,
    redacted_by text COLLATE pg_catalog."C",
    provenance text,
    text_of text COLLATE pg_catalog."C",
    text bytea
);


--
-- Data for Name: memories; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.memories VALUES (1, '/memories/empty.md', 'mem_066121d4d85a194a7567b2082575cd4f', 'memver_066121d4d85a190d1b10a7898cec48a5', 'memver_066121d4d85a190d1b10a7898cec48a5', 0, 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855', 1795647793027609, 1795647793027609, NULL, '{"integration":"python","by":[["2","user:ann","",""]]}', NULL);
INSERT INTO public.memories VALUES (1, '/memories/plan.md', 'mem_066121d4d7c15e7b91e9774e23c36474', 'memver_066121d4d8dc0672bd708c4fb4f5311a', 'memver_066121d4d8dc0672bd708c4fb4f5311a', 30, '5b53dcb6666a7535bf86cce013bb7627ce68cc3ff47bfa7784901146c22c2645', 1795647792988510, 1795647793060870, NULL, '{"integration":"python","by":[["0","session:s1","s1","tool:notes"],["3","session:s1","",""],["4","user:ann","",""]]}', NULL);
INSERT INTO public.memories VALUES (1, '/memories/old/no-secret.md', 'mem_066121d4d91cac6cc8b3d2931d0dbf7f', 'memver_066121d4d9970ad2d2fc818af48bcb72', 'memver_066121d4d95937939ef2f13bf56683b4', 13, 'c2a8079d955d628967ba60b7025898ac8ff4894865b2162a7e03406307f58578', 1795647793077420, 1795647793108746, NULL, '{"integration":"python","by":[["6","session:s2","",""],["7","user:ann","",""]]}', NULL);
INSERT INTO public.memories VALUES (1, '/memories/people/Zoë 東京.md', 'mem_066121d4d7fec076caaa23c1e3042f12', 'memver_066121d597d27e544dcc2c38b4079c00', 'memver_066121d597d27e544dcc2c38b4079c00', 65, 'd859c9651da923fd7fe3664ce87b5ffb317b36e85c3b0b55a531fdbb7cae61c5', 1795647793004224, 1795647805575806, NULL, '{"integration":"python","cause":"undo of r12","by":[["1","session:s2","",""],["c","user:ann","",""]]}', NULL);


--
-- Data for Name: records; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.records VALUES (1, 'store.event', 'evt_066121d4c8f7d21d5786e32898fad67d', '{"type":"settings","number":1,"by":"user:ann","count":3,"ids":["audit","max_memories","review"]}');
INSERT INTO public.records VALUES (1, 'audit', '000000000001', '{"actor":"user:ann","audit":true,"hash":"65bca3b79ce9da6f57530a843c5448475cc976c46ae86aada0ec9e5ec28a9240","id":"6a064849130b9707","integration":"python","newest":"","operation":"settings","outcome":"ok","prev":"0000000000000000000000000000000000000000000000000000000000000000","seq":1,"settings":["audit","max_memories","review"],"time":1795647792032022}');
INSERT INTO public.records VALUES (1, 'audit.detail', '000000000002', '{"paths":["/memories/plan.md"],"salt":"6fc4d949d646696580296397879a9dd4"}');
INSERT INTO public.records VALUES (1, 'audit', '000000000002', '{"actor":"session:s1","changes":[["mem_066121d4d7c15e7b91e9774e23c36474","memver_066121d4d7c15ebb3e1ce0f23c84db3e"]],"detail":"45020ee732875a736fe73e0341cea8983c4d5cf1dc4389c64f1fbe6ba901dbc9","hash":"09b5f9182bcf46d375e5cc1725bdfc52a18166215578afa22b6bb67844eb997c","id":"a1c6303521d1588c","integration":"python","operation":"create","outcome":"ok","prev":"65bca3b79ce9da6f57530a843c5448475cc976c46ae86aada0ec9e5ec28a9240","seq":2,"time":1795647792988793}');
INSERT INTO public.records VALUES (1, 'audit.detail', '000000000003', '{"paths":["/memories/people/Zo\u00eb \u6771\u4eac.md"],"salt":"1170ac6e0c7cbcd5ca4679790b1d4223"}');
INSERT INTO public.records VALUES (1, 'audit', '000000000003', '{"actor":"session:s2","changes":[["mem_066121d4d7fec076caaa23c1e3042f12","memver_066121d4d7fec05d1ff0ee6582f313b6"]],"detail":"6d56d66838e292a0b4b46304b054386a75118f33888ea809048d8e8bb0bfd8e1","hash":"c5be9856a51d98c13f6998ba3e60bd2b86fa92af16625205b63643de77c52ff6","id":"fede533d9f6237c6","integration":"python","operation":"create","outcome":"ok","prev":"09b5f9182bcf46d375e5cc1725bdfc52a18166215578afa22b6bb67844eb997c","seq":3,"time":1795647793004433}');
INSERT INTO public.records VALUES (1, 'audit.detail', '000000000004', '{"paths":["/memories/empty.md"],"salt":"1bbf6c63a9b7ee46cbdf8f2636f160e7"}');
INSERT INTO public.records VALUES (1, 'audit', '000000000004', '{"actor":"user:ann","changes":[["mem_066121d4d85a194a7567b2082575cd4f","memver_066121d4d85a190d1b10a7898cec48a5"]],"detail":"0ecb58d8fdc0c21a2e14d528ec7c3012cc7b004bf3794ba142d6a2c3e4ff841a","hash":"2b344d7d3e7fea97b84f72059b663334dce8581cc59b72e32f284fca2f92705a","id":"abe6aa45bdf469a4","integration":"python","operation":"create","outcome":"ok","prev":"c5be9856a51d98c13f6998ba3e60bd2b86fa92af16625205b63643de77c52ff6","seq":4,"time":1795647793027816}');
INSERT INTO public.records VALUES (1, 'audit.detail', '000000000005', '{"paths":["/memories/plan.md"],"salt":"5f78536383c89fed26cbcd5572b553e0"}');
INSERT INTO public.records VALUES (1, 'audit', '000000000005', '{"actor":"session:s1","changes":[["mem_066121d4d7c15e7b91e9774e23c36474","memver_066121d4d88a9d9f007fc53c0e73fc7e"]],"detail":"62453092f8e6ab8503c6e5f8d1c391e0a88ea2baf3e4a1aef30d1747779e9bd1","hash":"ed0aa3bddf0af5997f1901c0662cead9089aefe9e35d8120d444e8b916c9667e","id":"2e09b94a1f7a2419","integration":"python","operation":"str_replace","outcome":"ok","prev":"2b344d7d3e7fea97b84f72059b663334dce8581cc59b72e32f284fca2f92705a","seq":5,"time":1795647793040274}');
INSERT INTO public.records VALUES (1, 'audit.detail', '000000000006', '{"paths":["/memories/plan.md"],"salt":"61be9701fad62771d4867edd30fba1b4"}');
INSERT INTO public.records VALUES (1, 'audit', '000000000006', '{"actor":"user:ann","changes":[["mem_066121d4d7c15e7b91e9774e23c36474","memver_066121d4d8dc0672bd708c4fb4f5311a"]],"detail":"2634843a0f2addfa24aec1619ba19a0ec51b1184f3c2aae25ef89efbceaf348c","hash":"556fe496472eefd79f92dcefd92e6b3432a2c5dd92eb1de0a907a98a945a89a1","id":"67d8658d443ed455","integration":"python","operation":"insert","outcome":"ok","prev":"ed0aa3bddf0af5997f1901c0662cead9089aefe9e35d8120d444e8b916c9667e","seq":6,"time":1795647793061081}');
INSERT INTO public.records VALUES (1, 'audit', '000000000007', '{"actor":"session:s2","changes":[["mem_066121d4d91cac6cc8b3d2931d0dbf7f","memver_066121d4d91cac52404cc0f0f0bd790e"]],"detail":"6a105f64f5ada557a30cd8af7b61976897a1d96f0d31049a05447b80c3b7fa22","hash":"d5531c2594f858782e7733046848eec50c54902651feadf4801ba4cf480c62af","id":"2fd7e0ad30d9f8a1","integration":"python","operation":"create","outcome":"ok","prev":"556fe496472eefd79f92dcefd92e6b3432a2c5dd92eb1de0a907a98a945a89a1","seq":7,"time":1795647793077583}');
INSERT INTO public.records VALUES (1, 'audit', '000000000008', '{"actor":"session:s2","changes":[["mem_066121d4d91cac6cc8b3d2931d0dbf7f","memver_066121d4d95937939ef2f13bf56683b4"]],"detail":"7e9ebf73c519c7ebaf4dd6ad9ad39f0e7bc37ce9a9e63ac96ee97ad2ca218fbe","hash":"0b9060f0dec390b04a671aea0c6227617bfce7fc9616e30e71cf30c78cb1fc49","id":"86d6fa9a5a565843","integration":"python","operation":"write","outcome":"ok","prev":"d5531c2594f858782e7733046848eec50c54902651feadf4801ba4cf480c62af","seq":8,"time":1795647793093068}');
INSERT INTO public.records VALUES (1, 'audit', '000000000009', '{"actor":"user:ann","changes":[["mem_066121d4d91cac6cc8b3d2931d0dbf7f","memver_066121d4d9970ad2d2fc818af48bcb72"]],"detail":"633a7940d36613c40162e3ee5274450e3036fa87f65b9d08f7b720ae9f92898d","hash":"5e9ed872124e94b201f4ca5e412450a826d057699a627231599bc0e138e90263","id":"879a59d659a6b5b4","integration":"python","operation":"rename","outcome":"ok","prev":"0b9060f0dec390b04a671aea0c6227617bfce7fc9616e30e71cf30c78cb1fc49","seq":9,"time":1795647793108904}');
INSERT INTO public.records VALUES (1, 'store.event', 'evt_066121d4e19688410cb89c346a37fcde', '{"type":"redacted","number":2,"by":"user:ann","count":1,"ids":["memver_066121d4d91cac52404cc0f0f0bd790e"]}');
INSERT INTO public.records VALUES (1, 'audit', '000000000010', '{"actor":"user:ann","hash":"18045c2e0ecc1f8c11df36de00556bd9dc619a27e09e6286cb5982a5acdc9b7f","id":"5b362a60acf880c8","integration":"python","operation":"redact","outcome":"ok","prev":"5e9ed872124e94b201f4ca5e412450a826d057699a627231599bc0e138e90263","redacted":["memver_066121d4d91cac52404cc0f0f0bd790e"],"seq":10,"time":1795647793635480,"withheld":[7,8,9]}');
INSERT INTO public.records VALUES (1, 'audit.detail', '000000000011', '{"paths":["/memories/gone.md"],"salt":"7e0c4425ae718a4fdefa2a111a0ab7ca"}');
INSERT INTO public.records VALUES (1, 'audit', '000000000011', '{"actor":"session:s1","changes":[["mem_066121d4f4433a62f9c8f7777e239bf5","memver_066121d4f4433a2450caf0dd2b2fb04b"]],"detail":"edc108d55e698af32688c6e86804ce2bccf79739100f56ea70c89938fe705e7e","hash":"18ec78b8cae3aa655552613528f5a0f0ce66b9544bcaf983389b5b60c26fa479","id":"12a0a46eaaffaeee","integration":"python","operation":"create","outcome":"ok","prev":"18045c2e0ecc1f8c11df36de00556bd9dc619a27e09e6286cb5982a5acdc9b7f","seq":11,"time":1795647794856912}');
INSERT INTO public.records VALUES (1, 'audit.detail', '000000000012', '{"paths":["/memories/gone.md"],"salt":"93c7a78c708386002370cc065179b1cc"}');
INSERT INTO public.records VALUES (1, 'audit', '000000000012', '{"actor":"session:s1","changes":[["mem_066121d4f4433a62f9c8f7777e239bf5","memver_066121d522342e6d4141bcd38af2b4e3"]],"detail":"b0ee38e5708d2f2456e776e18a16056b2eda00a500b5cd6b8076492ae1c06ee7","hash":"374bb4072ee37a37e66cb97dc133c562af418fa551d9322538f5e33b44e434b2","id":"976fc78f7f7ea28e","integration":"python","operation":"delete","outcome":"ok","prev":"18ec78b8cae3aa655552613528f5a0f0ce66b9544bcaf983389b5b60c26fa479","seq":12,"time":1795647797867684}');
INSERT INTO public.records VALUES (1, 'audit.detail', '000000000013', '{"paths":["/memories/people/Zo\u00eb \u6771\u4eac.md"],"salt":"95a7b65dbe8436a427aa1ddeedbdb1ca"}');
INSERT INTO public.records VALUES (1, 'audit', '000000000013', '{"actor":"session:s2","changes":[["mem_066121d4d7fec076caaa23c1e3042f12","memver_066121d54079f77ad3ad2a7c7e405817"]],"detail":"f759106c3ef279ad133f043c44c65f2ca75ee71e74102640f2701476079f7684","hash":"ed779b5d47a1e32d1170fd013cd311ce75c88cbf8101f5988add92ce2abb5cd7","id":"332431bff070522a","integration":"python","operation":"append","outcome":"ok","prev":"374bb4072ee37a37e66cb97dc133c562af418fa551d9322538f5e33b44e434b2","seq":13,"time":1795647799851706}');
INSERT INTO public.records VALUES (1, 'audit', '000000000014', '{"actor":"user:ann","changes":[["mem_066121d4d7fec076caaa23c1e3042f12","memver_066121d597d27e544dcc2c38b4079c00"]],"hash":"21fb0d58900223df69f0f2de0d568993e3571ddccd6e596c1a008b563d08504e","id":"c9f2356c252f6151","integration":"python","operation":"undo","outcome":"ok","prev":"ed779b5d47a1e32d1170fd013cd311ce75c88cbf8101f5988add92ce2abb5cd7","seq":14,"time":1795647805575941}');
INSERT INTO public.records VALUES (1, 'proposal.after', 'prop_066121d59a7e18152355721bcfc0b5d7.0', 'a proposal
');
INSERT INTO public.records VALUES (1, 'proposal', 'prop_066121d59a7e18152355721bcfc0b5d7', '{"actor": "session:guest-1", "at": 1795647805750808, "number": 1, "changes": [{"operation": "created", "memory_id": "prop_066121d59a7e18152355721bcfc0b5d7.0", "before": null, "path": "/memories/proposed.md", "size_bytes": 11, "sha256": "b4e79b9a342055ffb8999e4327c27a8be8a6f042b3bcf068236c5be332d47bbb", "base_sha256": null, "created_at": 1795647805750808, "provenance_text": "{\"integration\":\"python\",\"by\":[[\"d\",\"session:guest-1\",\"\",\"\"]]}"}]}');
INSERT INTO public.records VALUES (1, 'store.event', 'evt_066121d59bd334fc7b2181693d7e08b7', '{"type":"proposed","number":3,"by":"session:guest-1","count":1,"ids":["prop_066121d59a7e18152355721bcfc0b5d7"]}');
INSERT INTO public.records VALUES (1, 'audit.detail', '000000000015', '{"paths":["/memories/proposed.md"],"salt":"f0aa0bae0c87e4cb3f671db8c72524ba"}');
INSERT INTO public.records VALUES (1, 'audit', '000000000015', '{"actor":"session:guest-1","changes":[["prop_066121d59a7e18152355721bcfc0b5d7.0","prop_066121d59a7e18152355721bcfc0b5d7.0"]],"detail":"d4606ffecdb290a487678e2e1f2779c1a3c3410a7e598ecd4896e805e93a3ee3","hash":"af05ad057d8154e8d27bfaa02cc77aa50975e8b14e244b00eb09e7e6957d80d5","id":"5b811601900df0f2","integration":"python","operation":"create","outcome":"ok","prev":"21fb0d58900223df69f0f2de0d568993e3571ddccd6e596c1a008b563d08504e","proposed":true,"seq":15,"time":1795647805839100}');
INSERT INTO public.records VALUES (1, 'proposal.after', 'prop_066121d59cf1ea61eaa9884656c05059.0', 'proposed instead
');
INSERT INTO public.records VALUES (1, 'proposal.before', 'prop_066121d59cf1ea61eaa9884656c05059.0', '# Plan
1. write
2. test more
');
INSERT INTO public.records VALUES (1, 'proposal', 'prop_066121d59cf1ea61eaa9884656c05059', '{"actor": "session:guest-1", "at": 1795647805911530, "number": 2, "changes": [{"operation": "modified", "memory_id": "mem_066121d4d7c15e7b91e9774e23c36474", "before": "/memories/plan.md", "path": "/memories/plan.md", "size_bytes": 17, "sha256": "349fb199473896d4925137f3dac0a7f134c13f0e1bad5ac32b0c5a03607de0cc", "base_sha256": "5b53dcb6666a7535bf86cce013bb7627ce68cc3ff47bfa7784901146c22c2645", "created_at": 1795647792988510, "provenance_text": "{\"integration\":\"python\",\"by\":[[\"0\",\"session:s1\",\"s1\",\"tool:notes\"],[\"3\",\"session:s1\",\"\",\"\"],[\"4\",\"user:ann\",\"\",\"\"],[\"d\",\"session:guest-1\",\"\",\"\"]]}"}]}');
INSERT INTO public.records VALUES (1, 'store.event', 'evt_066121d59e1a7cd7e1592e609baf64d3', '{"type":"proposed","number":4,"by":"session:guest-1","count":1,"ids":["prop_066121d59cf1ea61eaa9884656c05059"]}');
INSERT INTO public.records VALUES (1, 'store.head', 'newest', '{"count": 4, "newest": "evt_066121d59e1a7cd7e1592e609baf64d3"}');
INSERT INTO public.records VALUES (1, 'audit.detail', '000000000016', '{"paths":["/memories/plan.md"],"salt":"13013cd31e86a564f3ead818bfcce747"}');
INSERT INTO public.records VALUES (1, 'audit', '000000000016', '{"actor":"session:guest-1","changes":[["mem_066121d4d7c15e7b91e9774e23c36474","prop_066121d59cf1ea61eaa9884656c05059.0"]],"detail":"c42ae4b2b1f8d7145237b864b4d773b5e6f860dfbf8adcfcf1b1b000cc110eaf","hash":"10f444a911b360222a9719dae8b70e7b9888a1ececf4b8391275f93f5bd3ff3c","id":"3ce48a8fcb9ae8b7","integration":"python","operation":"write","outcome":"ok","prev":"af05ad057d8154e8d27bfaa02cc77aa50975e8b14e244b00eb09e7e6957d80d5","proposed":true,"seq":16,"time":1795647806007473}');
INSERT INTO public.records VALUES (1, 'audit.head', 'head', '16:10f444a911b360222a9719dae8b70e7b9888a1ececf4b8391275f93f5bd3ff3c');


--
-- Data for Name: retentive_schema; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.retentive_schema VALUES (1, 1795647791879413);


--
-- Data for Name: stores; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.stores OVERRIDING SYSTEM VALUE VALUES (1, 'memstore_066121d4c8591f39980752d9ca0899fb', 'wrkspc_default', 'notes', 'Notes', 1795647791978783, 13, 4, 108, 1795647805987452, NULL, '{"audit": true, "max_memories": 500, "review": ["session:guest-*"]}', NULL, NULL, NULL);


--
-- Data for Name: versions; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.versions VALUES (1, 'memver_066121d4d7c15ebb3e1ce0f23c84db3e', 'mem_066121d4d7c15e7b91e9774e23c36474', 'created', '/memories/plan.md', 18, 'ec794a077ccb13bca49e64f27b59adb3e1082f18676117d9546778adbf401a9c', 'session:s1', 1795647792988510, 1, NULL, NULL, NULL, '{"integration":"python","session":"s1","source":"tool:notes","by":[["0","session:s1","s1","tool:notes"]]}', 'memver_066121d4d7c15ebb3e1ce0f23c84db3e', '\x312e2077726974650d0a322e20746573740a');
INSERT INTO public.versions VALUES (1, 'memver_066121d4d7fec05d1ff0ee6582f313b6', 'mem_066121d4d7fec076caaa23c1e3042f12', 'created', '/memories/people/Zoë 東京.md', 65, 'd859c9651da923fd7fe3664ce87b5ffb317b36e85c3b0b55a531fdbb7cae61c5', 'session:s2', 1795647793004224, 2, NULL, NULL, NULL, '{"integration":"python","by":[["1","session:s2","",""]]}', 'memver_066121d4d7fec05d1ff0ee6582f313b6', '\x6e61c3af766520636166c3a92c20e697a5e69cace8aa9e2c20f09f91a9e2808df09f9a802c2065cc810a0974616220616e64206e6f20656e64206f66206c696e65');
INSERT INTO public.versions VALUES (1, 'memver_066121d4d85a190d1b10a7898cec48a5', 'mem_066121d4d85a194a7567b2082575cd4f', 'created', '/memories/empty.md', 0, 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855', 'user:ann', 1795647793027609, 3, NULL, NULL, NULL, '{"integration":"python","by":[["2","user:ann","",""]]}', 'memver_066121d4d85a190d1b10a7898cec48a5', '\x');
INSERT INTO public.versions VALUES (1, 'memver_066121d4d88a9d9f007fc53c0e73fc7e', 'mem_066121d4d7c15e7b91e9774e23c36474', 'modified', '/memories/plan.md', 23, '8e1777a36f960f9380816cb584fe3edc06c70562cf64e56733ba7ec89bdedad0', 'session:s1', 1795647793040029, 4, NULL, NULL, NULL, '{"integration":"python","by":[["0","session:s1","s1","tool:notes"],["3","session:s1","",""]]}', 'memver_066121d4d88a9d9f007fc53c0e73fc7e', '\x312e2077726974650d0a322e2074657374206d6f72650a');
INSERT INTO public.versions VALUES (1, 'memver_066121d4d8dc0672bd708c4fb4f5311a', 'mem_066121d4d7c15e7b91e9774e23c36474', 'modified', '/memories/plan.md', 30, '5b53dcb6666a7535bf86cce013bb7627ce68cc3ff47bfa7784901146c22c2645', 'user:ann', 1795647793060870, 5, NULL, NULL, NULL, '{"integration":"python","by":[["0","session:s1","s1","tool:notes"],["3","session:s1","",""],["4","user:ann","",""]]}', 'memver_066121d4d8dc0672bd708c4fb4f5311a', '\x2320506c616e0a312e2077726974650d0a322e2074657374206d6f72650a');
INSERT INTO public.versions VALUES (1, 'memver_066121d4d95937939ef2f13bf56683b4', 'mem_066121d4d91cac6cc8b3d2931d0dbf7f', 'modified', '/memories/secret.md', 13, 'c2a8079d955d628967ba60b7025898ac8ff4894865b2162a7e03406307f58578', 'session:s2', 1795647793092919, 7, NULL, NULL, NULL, '{"integration":"python","by":[["6","session:s2","",""]]}', 'memver_066121d4d95937939ef2f13bf56683b4', '\x6e6f7468696e6720686572650a');
INSERT INTO public.versions VALUES (1, 'memver_066121d4d9970ad2d2fc818af48bcb72', 'mem_066121d4d91cac6cc8b3d2931d0dbf7f', 'modified', '/memories/old/no-secret.md', 13, 'c2a8079d955d628967ba60b7025898ac8ff4894865b2162a7e03406307f58578', 'user:ann', 1795647793108746, 8, NULL, NULL, NULL, '{"integration":"python","by":[["6","session:s2","",""],["7","user:ann","",""]]}', 'memver_066121d4d95937939ef2f13bf56683b4', NULL);
INSERT INTO public.versions VALUES (1, 'memver_066121d4d91cac52404cc0f0f0bd790e', 'mem_066121d4d91cac6cc8b3d2931d0dbf7f', 'created', '', NULL, NULL, 'session:s2', 1795647793077420, 6, NULL, 1795647793603521, 'user:ann', NULL, NULL, NULL);
INSERT INTO public.versions VALUES (1, 'memver_066121d4f4433a2450caf0dd2b2fb04b', 'mem_066121d4f4433a62f9c8f7777e239bf5', 'created', '/memories/gone.md', 8, 'ee31ef227442936872744b50d3297385c08b40ffc7baeaf34a39e6d81d6cd9ee', 'session:s1', 1795647794856762, 10, NULL, NULL, NULL, '{"integration":"python","by":[["9","session:s1","",""]]}', 'memver_066121d4f4433a2450caf0dd2b2fb04b', '\x64656c657465640a');
INSERT INTO public.versions VALUES (1, 'memver_066121d522342e6d4141bcd38af2b4e3', 'mem_066121d4f4433a62f9c8f7777e239bf5', 'deleted', '/memories/gone.md', NULL, NULL, 'session:s1', 1795647797867566, 11, NULL, NULL, NULL, '{"integration":"python","by":[["a","session:s1","",""]]}', NULL, NULL);
INSERT INTO public.versions VALUES (1, 'memver_066121d54079f77ad3ad2a7c7e405817', 'mem_066121d4d7fec076caaa23c1e3042f12', 'modified', '/memories/people/Zoë 東京.md', 74, '84d21b797f3e80b6ddf6000cceaef5b260643a825c18e4d45cbae0bdf5ad8a96', 'session:s2', 1795647799851511, 12, NULL, NULL, NULL, '{"integration":"python","by":[["b","session:s2","",""]]}', 'memver_066121d54079f77ad3ad2a7c7e405817', '\x6e61c3af766520636166c3a92c20e697a5e69cace8aa9e2c20f09f91a9e2808df09f9a802c2065cc810a0974616220616e64206e6f20656e64206f66206c696e650a0a756e646f6e650a');
INSERT INTO public.versions VALUES (1, 'memver_066121d597d27e544dcc2c38b4079c00', 'mem_066121d4d7fec076caaa23c1e3042f12', 'modified', '/memories/people/Zoë 東京.md', 65, 'd859c9651da923fd7fe3664ce87b5ffb317b36e85c3b0b55a531fdbb7cae61c5', 'user:ann', 1795647805575806, 13, NULL, NULL, NULL, '{"integration":"python","cause":"undo of r12","by":[["1","session:s2","",""],["c","user:ann","",""]]}', 'memver_066121d597d27e544dcc2c38b4079c00', '\x6e61c3af766520636166c3a92c20e697a5e69cace8aa9e2c20f09f91a9e2808df09f9a802c2065cc810a0974616220616e64206e6f20656e64206f66206c696e65');


--
-- Name: stores_no_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.stores_no_seq', 1, true);


--
-- Name: memories memories_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.memories
    ADD CONSTRAINT memories_pkey PRIMARY KEY (store, path);


--
-- Name: records records_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.records
    ADD CONSTRAINT records_pkey PRIMARY KEY (store, kind, name);


--
-- Name: retentive_schema retentive_schema_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.retentive_schema
    ADD CONSTRAINT retentive_schema_pkey PRIMARY KEY (number);


--
-- Name: stores stores_id_key; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.stores
    ADD CONSTRAINT stores_id_key UNIQUE (id);


--
-- Name: stores stores_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.stores
    ADD CONSTRAINT stores_pkey PRIMARY KEY (no);


--
-- Name: stores stores_workspace_store_key_key; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.stores
    ADD CONSTRAINT stores_workspace_store_key_key UNIQUE (workspace, store_key);


--
-- Name: versions versions_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.versions
    ADD CONSTRAINT versions_pkey PRIMARY KEY (store, id);


--
-- Name: versions_by_memory; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX versions_by_memory ON public.versions USING btree (store, memory, id);


--
-- PostgreSQL database dump complete
--


