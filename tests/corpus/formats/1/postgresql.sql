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

INSERT INTO public.memories VALUES (1, '/memories/empty.md', 'mem_06616bd80b089dab7088ae7dc5baeade', 'memver_06616bd80b089defbb22cf1b3f5b5d69', 'memver_06616bd80b089defbb22cf1b3f5b5d69', 0, 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855', 1795965674260637, 1795965674260637, NULL, '{"integration":"python","by":[["2","user:ann","",""]]}', NULL);
INSERT INTO public.memories VALUES (1, '/memories/plan.md', 'mem_06616bd80adbbb63023e87e361e188fb', 'memver_06616bd80b57ce63b6cd3d46ff54b24b', 'memver_06616bd80b57ce63b6cd3d46ff54b24b', 30, '5b53dcb6666a7535bf86cce013bb7627ce68cc3ff47bfa7784901146c22c2645', 1795965674249147, 1795965674280910, NULL, '{"integration":"python","by":[["0","session:s1","s1","tool:notes"],["3","session:s1","",""],["4","user:ann","",""]]}', NULL);
INSERT INTO public.memories VALUES (1, '/memories/old/no-secret.md', 'mem_06616bd80b615de9c564192b2f1f2de6', 'memver_06616bd80b9da04d0b487322d5b73de5', 'memver_06616bd80b847b3c83998a7023d9e5a7', 13, 'c2a8079d955d628967ba60b7025898ac8ff4894865b2162a7e03406307f58578', 1795965674283357, 1795965674298784, NULL, '{"integration":"python","by":[["6","session:s2","",""],["7","user:ann","",""]]}', NULL);
INSERT INTO public.memories VALUES (1, '/memories/people/Zoë 東京.md', 'mem_06616bd80afc4ecc022d3e93b180a978', 'memver_06616bd80cb8e424e87b6cb8eb4bde7a', 'memver_06616bd80cb8e424e87b6cb8eb4bde7a', 65, 'd859c9651da923fd7fe3664ce87b5ffb317b36e85c3b0b55a531fdbb7cae61c5', 1795965674257486, 1795965674371300, NULL, '{"integration":"python","cause":"undo of r12","by":[["1","session:s2","",""],["c","user:ann","",""]]}', NULL);


--
-- Data for Name: records; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.records VALUES (1, 'store.event', 'evt_06616bd80aa511081d62c03533671a7a', '{"type":"settings","number":1,"by":"user:ann","count":3,"ids":["audit","max_memories","review"]}');
INSERT INTO public.records VALUES (1, 'audit', '000000000001', '{"actor":"user:ann","audit":true,"hash":"4ad599980ba0b0eefb020e1633a50c71c69a81222b96fc3501c795494b1ce73e","id":"a87c68d43c930718","integration":"python","newest":"","operation":"settings","outcome":"ok","prev":"0000000000000000000000000000000000000000000000000000000000000000","seq":1,"settings":["audit","max_memories","review"],"settings_sha256":"903a952bab28665e6aee85a5fb94dc45010d4cf04c28e70f6c02d536e4312a9b","time":1795965674236379}');
INSERT INTO public.records VALUES (1, 'audit', '000000000002', '{"actor":"session:s1","changes":[["mem_06616bd80adbbb63023e87e361e188fb","memver_06616bd80adbbb41a4195b626f9295d8"]],"detail":"a7aec77485471c850889953880bf2281ef87b9bb2eb11f6fa38fb28ddf8ff7b6","hash":"5ff10004e8a6095c044a14e2b6408609cfed07e43d738c256f03d41b6e1c9e61","id":"da783bfbf5a42a44","integration":"python","operation":"create","outcome":"ok","prev":"4ad599980ba0b0eefb020e1633a50c71c69a81222b96fc3501c795494b1ce73e","seq":2,"time":1795965674249528}
{"paths":["/memories/plan.md"],"salt":"6b93244f21640c42192571c82469683b"}');
INSERT INTO public.records VALUES (1, 'audit', '000000000003', '{"actor":"session:s2","changes":[["mem_06616bd80afc4ecc022d3e93b180a978","memver_06616bd80afc4e23bcb891daec574eef"]],"detail":"0e308c99a33e195c53fd7d5b5ebafada5e58e26224a3b007045247a4ac2f9904","hash":"21a31b140fe6fc2fb15a1dd6c5e212be636fd4d3cda9789545c333b91eb7c6af","id":"a2ba165d0c263464","integration":"python","operation":"create","outcome":"ok","prev":"5ff10004e8a6095c044a14e2b6408609cfed07e43d738c256f03d41b6e1c9e61","seq":3,"time":1795965674257765}
{"paths":["/memories/people/Zo\u00eb \u6771\u4eac.md"],"salt":"0eadf7a9bd1befa8a91ca6eaa1f9e376"}');
INSERT INTO public.records VALUES (1, 'audit', '000000000004', '{"actor":"user:ann","changes":[["mem_06616bd80b089dab7088ae7dc5baeade","memver_06616bd80b089defbb22cf1b3f5b5d69"]],"detail":"b384e32ead3520cafcfe7bf65137d5862277f0350a828f3f1f0b873aca909576","hash":"be95717e706b80e42792a2b08935c10a47eaf4c5e3f06c8822517a1e744a2cc7","id":"d43d4d92d0d2a3ff","integration":"python","operation":"create","outcome":"ok","prev":"21a31b140fe6fc2fb15a1dd6c5e212be636fd4d3cda9789545c333b91eb7c6af","seq":4,"time":1795965674260841}
{"paths":["/memories/empty.md"],"salt":"0b0f0ef64730704dfa4e832f9b8d4a27"}');
INSERT INTO public.records VALUES (1, 'audit', '000000000005', '{"actor":"session:s1","changes":[["mem_06616bd80adbbb63023e87e361e188fb","memver_06616bd80b37ba899f920b02a2813762"]],"detail":"ac660a52a5759c0532e647423f8d5d293823980b349fd861262f01c5ba1dbb5d","hash":"9917b2704b94ccaf1faa596aaefb719f1a91cc85534f75df97bc05f438b425c2","id":"d04c075b76f250c5","integration":"python","operation":"str_replace","outcome":"ok","prev":"be95717e706b80e42792a2b08935c10a47eaf4c5e3f06c8822517a1e744a2cc7","seq":5,"time":1795965674272990}
{"paths":["/memories/plan.md"],"salt":"45f9ff2fe9e7f21ac99aeb55008e0869"}');
INSERT INTO public.records VALUES (1, 'audit', '000000000006', '{"actor":"user:ann","changes":[["mem_06616bd80adbbb63023e87e361e188fb","memver_06616bd80b57ce63b6cd3d46ff54b24b"]],"detail":"4e44752ceb6d2c5c01afc4a0ccb9be47cfff40094d7c36f4b0fe0eb77f7f98db","hash":"79f5e5d35ee1c20a64f1211979aa0d4523d26e1010b925fd356a564b0c939811","id":"026866244e45ddea","integration":"python","operation":"insert","outcome":"ok","prev":"9917b2704b94ccaf1faa596aaefb719f1a91cc85534f75df97bc05f438b425c2","seq":6,"time":1795965674281098}
{"paths":["/memories/plan.md"],"salt":"9537c1e898508f04d9714ec5a628d91c"}');
INSERT INTO public.records VALUES (1, 'audit', '000000000007', '{"actor":"session:s2","changes":[["mem_06616bd80b615de9c564192b2f1f2de6","memver_06616bd80b615d2bbbc86c1ebffc2b18"]],"detail":"743a7ef52ed25ba3c7ce642b552666a2780784cdbacaa6edfba2561a27ecf8e7","hash":"835802d8efbebc65e958388681ff93b851170c5260dfedebe8d0128700a4122b","id":"84c6765b5b4d4e08","integration":"python","operation":"create","outcome":"ok","prev":"79f5e5d35ee1c20a64f1211979aa0d4523d26e1010b925fd356a564b0c939811","seq":7,"time":1795965674283535}');
INSERT INTO public.records VALUES (1, 'audit', '000000000008', '{"actor":"session:s2","changes":[["mem_06616bd80b615de9c564192b2f1f2de6","memver_06616bd80b847b3c83998a7023d9e5a7"]],"detail":"826db27fa7ec39c3e7070150ea3e90c2522f033dbc922a50fb1f328dac3c247e","hash":"333933264fd89a8ae0d85658f914a57125e63a876bac0cd105c83ee307a1270b","id":"f0ae1390ec7c3372","integration":"python","operation":"write","outcome":"ok","prev":"835802d8efbebc65e958388681ff93b851170c5260dfedebe8d0128700a4122b","seq":8,"time":1795965674292534}');
INSERT INTO public.records VALUES (1, 'audit', '000000000009', '{"actor":"user:ann","changes":[["mem_06616bd80b615de9c564192b2f1f2de6","memver_06616bd80b9da04d0b487322d5b73de5"]],"detail":"124cf5589f097cdde14e481748445976d6a047736f1ab32631a5fd7a87070cc2","hash":"3ff35a20ad4b42241d0e3940b009031d7161806166704b805ea779507f153229","id":"3d527bdf04a7a52a","integration":"python","operation":"rename","outcome":"ok","prev":"333933264fd89a8ae0d85658f914a57125e63a876bac0cd105c83ee307a1270b","seq":9,"time":1795965674299031}');
INSERT INTO public.records VALUES (1, 'store.event', 'evt_06616bd80be51c58a97439f3e0d795c1', '{"type":"redacted","number":2,"by":"user:ann","count":1,"ids":["memver_06616bd80b615d2bbbc86c1ebffc2b18"]}');
INSERT INTO public.records VALUES (1, 'audit', '000000000010', '{"actor":"user:ann","hash":"84142ea8b9760516de4b9a7b84dc9b5ec6069fdf8678a0a901caac61dd81dcf1","id":"b8c6359a1c6c09ad","integration":"python","operation":"redact","outcome":"ok","prev":"3ff35a20ad4b42241d0e3940b009031d7161806166704b805ea779507f153229","redacted":["memver_06616bd80b615d2bbbc86c1ebffc2b18"],"seq":10,"time":1795965674322696,"withheld":[7,8,9]}');
INSERT INTO public.records VALUES (1, 'audit', '000000000011', '{"actor":"session:s1","changes":[["mem_06616bd80c3e3d343ae7fdb1318bf7e6","memver_06616bd80c3e3dbd4019d3dd7d8ddf5e"]],"detail":"ad30398f69b2af0a97ce11ae349deb3892d4701603e42043fc3961faadbb1a0d","hash":"f6b6ee6b312c5285f822e6da42b0c598a94cafb50c87a38ff38bc768323078f2","id":"9b1be0740382ba5d","integration":"python","operation":"create","outcome":"ok","prev":"84142ea8b9760516de4b9a7b84dc9b5ec6069fdf8678a0a901caac61dd81dcf1","seq":11,"time":1795965674340103}
{"paths":["/memories/gone.md"],"salt":"ed81db7895c63782e9f177ec6572da3a"}');
INSERT INTO public.records VALUES (1, 'audit', '000000000012', '{"actor":"session:s1","changes":[["mem_06616bd80c3e3d343ae7fdb1318bf7e6","memver_06616bd80c4799e7c07b0d7a4e014ff2"]],"detail":"22af6f039091eba5120bbd785164c5d1f0423506e0c849f0b91f6ff4944fec36","hash":"64a2281925ae92cd825eb02a39a2df13040fd6c7712ee8a9b4763e912100ccae","id":"da11ae2f2544f1b8","integration":"python","operation":"delete","outcome":"ok","prev":"f6b6ee6b312c5285f822e6da42b0c598a94cafb50c87a38ff38bc768323078f2","seq":12,"time":1795965674342567}
{"paths":["/memories/gone.md"],"salt":"925d9575d9dd992b03ef0d4efe081c73"}');
INSERT INTO public.records VALUES (1, 'audit', '000000000013', '{"actor":"session:s2","changes":[["mem_06616bd80afc4ecc022d3e93b180a978","memver_06616bd80c72dd0348235057caee6460"]],"detail":"a81165567564912bf66da69ab7b73e802eca46431080a4cca7ff8afc08716edd","hash":"1367556122e289a6385694f6c225be5d1ba38a0574d3a1f0ed2796759c4413d6","id":"40cff5d197c77213","integration":"python","operation":"append","outcome":"ok","prev":"64a2281925ae92cd825eb02a39a2df13040fd6c7712ee8a9b4763e912100ccae","seq":13,"time":1795965674353640}
{"paths":["/memories/people/Zo\u00eb \u6771\u4eac.md"],"salt":"a41a432a321bc90be5a3a14b52cde81f"}');
INSERT INTO public.records VALUES (1, 'audit', '000000000014', '{"actor":"user:ann","changes":[["mem_06616bd80afc4ecc022d3e93b180a978","memver_06616bd80cb8e424e87b6cb8eb4bde7a"]],"hash":"0a5257bc762ab05b351b84d05842883c71973b13bf36bcbdc4d869b9af8834ed","id":"456fed51dfb6438e","integration":"python","operation":"undo","outcome":"ok","prev":"1367556122e289a6385694f6c225be5d1ba38a0574d3a1f0ed2796759c4413d6","seq":14,"time":1795965674371821}');
INSERT INTO public.records VALUES (1, 'proposal.after', 'prop_06616bd80ce94caadc060ea5bc538a08.0', 'a proposal
');
INSERT INTO public.records VALUES (1, 'proposal', 'prop_06616bd80ce94caadc060ea5bc538a08', '{"actor": "session:guest-1", "at": 1795965674383692, "number": 1, "changes": [{"operation": "created", "memory_id": "prop_06616bd80ce94caadc060ea5bc538a08.0", "before": null, "path": "/memories/proposed.md", "size_bytes": 11, "sha256": "b4e79b9a342055ffb8999e4327c27a8be8a6f042b3bcf068236c5be332d47bbb", "base_sha256": null, "created_at": 1795965674383692, "provenance_text": "{\"integration\":\"python\",\"by\":[[\"d\",\"session:guest-1\",\"\",\"\"]]}"}]}');
INSERT INTO public.records VALUES (1, 'store.event', 'evt_06616bd80cf277a15098446c91f58228', '{"type":"proposed","number":3,"by":"session:guest-1","count":1,"ids":["prop_06616bd80ce94caadc060ea5bc538a08"]}');
INSERT INTO public.records VALUES (1, 'audit', '000000000015', '{"actor":"session:guest-1","changes":[["prop_06616bd80ce94caadc060ea5bc538a08.0","prop_06616bd80ce94caadc060ea5bc538a08.0"]],"detail":"4516a7d68043885256a99e81a068e9edae6782dad42edd14afecf9fea9185d8c","hash":"6065e3547bd3f20248f0eba87a2810fa4fb568d145f5820f255217ce039ddc9c","id":"03e20910c7af6bfa","integration":"python","operation":"create","outcome":"ok","prev":"0a5257bc762ab05b351b84d05842883c71973b13bf36bcbdc4d869b9af8834ed","proposed":true,"seq":15,"time":1795965674391578}
{"paths":["/memories/proposed.md"],"salt":"c980f88abd7b79c4091a8d3c295193e2"}');
INSERT INTO public.records VALUES (1, 'proposal.after', 'prop_06616bd80d1241288ba3563fd04a4f00.0', 'proposed instead
');
INSERT INTO public.records VALUES (1, 'proposal.before', 'prop_06616bd80d1241288ba3563fd04a4f00.0', '# Plan
1. write
2. test more
');
INSERT INTO public.records VALUES (1, 'proposal', 'prop_06616bd80d1241288ba3563fd04a4f00', '{"actor": "session:guest-1", "at": 1795965674394177, "number": 2, "changes": [{"operation": "modified", "memory_id": "mem_06616bd80adbbb63023e87e361e188fb", "before": "/memories/plan.md", "path": "/memories/plan.md", "size_bytes": 17, "sha256": "349fb199473896d4925137f3dac0a7f134c13f0e1bad5ac32b0c5a03607de0cc", "base_sha256": "5b53dcb6666a7535bf86cce013bb7627ce68cc3ff47bfa7784901146c22c2645", "created_at": 1795965674249147, "provenance_text": "{\"integration\":\"python\",\"by\":[[\"0\",\"session:s1\",\"s1\",\"tool:notes\"],[\"3\",\"session:s1\",\"\",\"\"],[\"4\",\"user:ann\",\"\",\"\"],[\"d\",\"session:guest-1\",\"\",\"\"]]}"}]}');
INSERT INTO public.records VALUES (1, 'store.event', 'evt_06616bd80d2681c3b22babec5b627837', '{"type":"proposed","number":4,"by":"session:guest-1","count":1,"ids":["prop_06616bd80d1241288ba3563fd04a4f00"]}');
INSERT INTO public.records VALUES (1, 'store.head', 'newest', '{"count": 4, "newest": "evt_06616bd80d2681c3b22babec5b627837"}');
INSERT INTO public.records VALUES (1, 'audit', '000000000016', '{"actor":"session:guest-1","changes":[["mem_06616bd80adbbb63023e87e361e188fb","prop_06616bd80d1241288ba3563fd04a4f00.0"]],"detail":"579bc6ca421669ed7d1b0f6fb6d97c66b31351042f96d2d37e6eb8dd273a0829","hash":"036740078651e41a9f860f19d2578b9806ab031f1956b4b98cefca7f95f64559","id":"4a4903b5c869531e","integration":"python","operation":"write","outcome":"ok","prev":"6065e3547bd3f20248f0eba87a2810fa4fb568d145f5820f255217ce039ddc9c","proposed":true,"seq":16,"time":1795965674400154}
{"paths":["/memories/plan.md"],"salt":"2bbc9a342a815824b0b0a5ce58bbd037"}');
INSERT INTO public.records VALUES (1, 'audit.head', 'head', '16:036740078651e41a9f860f19d2578b9806ab031f1956b4b98cefca7f95f64559');


--
-- Data for Name: retentive_schema; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.retentive_schema VALUES (1, 1795965674185221);


--
-- Data for Name: stores; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.stores OVERRIDING SYSTEM VALUE VALUES (1, 'memstore_06616bd80a7ba4f6d02386a2e372f5e5', 'wrkspc_default', 'notes', 'Notes', 1795965674224548, 13, 4, 108, 1795965674399361, NULL, '{"audit": true, "max_memories": 500, "review": ["session:guest-*"]}', NULL, NULL, NULL);


--
-- Data for Name: versions; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.versions VALUES (1, 'memver_06616bd80adbbb41a4195b626f9295d8', 'mem_06616bd80adbbb63023e87e361e188fb', 'created', '/memories/plan.md', 18, 'ec794a077ccb13bca49e64f27b59adb3e1082f18676117d9546778adbf401a9c', 'session:s1', 1795965674249147, 1, NULL, NULL, NULL, '{"integration":"python","session":"s1","source":"tool:notes","by":[["0","session:s1","s1","tool:notes"]]}', 'memver_06616bd80adbbb41a4195b626f9295d8', '\x312e2077726974650d0a322e20746573740a');
INSERT INTO public.versions VALUES (1, 'memver_06616bd80afc4e23bcb891daec574eef', 'mem_06616bd80afc4ecc022d3e93b180a978', 'created', '/memories/people/Zoë 東京.md', 65, 'd859c9651da923fd7fe3664ce87b5ffb317b36e85c3b0b55a531fdbb7cae61c5', 'session:s2', 1795965674257486, 2, NULL, NULL, NULL, '{"integration":"python","by":[["1","session:s2","",""]]}', 'memver_06616bd80afc4e23bcb891daec574eef', '\x6e61c3af766520636166c3a92c20e697a5e69cace8aa9e2c20f09f91a9e2808df09f9a802c2065cc810a0974616220616e64206e6f20656e64206f66206c696e65');
INSERT INTO public.versions VALUES (1, 'memver_06616bd80b089defbb22cf1b3f5b5d69', 'mem_06616bd80b089dab7088ae7dc5baeade', 'created', '/memories/empty.md', 0, 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855', 'user:ann', 1795965674260637, 3, NULL, NULL, NULL, '{"integration":"python","by":[["2","user:ann","",""]]}', 'memver_06616bd80b089defbb22cf1b3f5b5d69', '\x');
INSERT INTO public.versions VALUES (1, 'memver_06616bd80b37ba899f920b02a2813762', 'mem_06616bd80adbbb63023e87e361e188fb', 'modified', '/memories/plan.md', 23, '8e1777a36f960f9380816cb584fe3edc06c70562cf64e56733ba7ec89bdedad0', 'session:s1', 1795965674272698, 4, NULL, NULL, NULL, '{"integration":"python","by":[["0","session:s1","s1","tool:notes"],["3","session:s1","",""]]}', 'memver_06616bd80b37ba899f920b02a2813762', '\x312e2077726974650d0a322e2074657374206d6f72650a');
INSERT INTO public.versions VALUES (1, 'memver_06616bd80b57ce63b6cd3d46ff54b24b', 'mem_06616bd80adbbb63023e87e361e188fb', 'modified', '/memories/plan.md', 30, '5b53dcb6666a7535bf86cce013bb7627ce68cc3ff47bfa7784901146c22c2645', 'user:ann', 1795965674280910, 5, NULL, NULL, NULL, '{"integration":"python","by":[["0","session:s1","s1","tool:notes"],["3","session:s1","",""],["4","user:ann","",""]]}', 'memver_06616bd80b57ce63b6cd3d46ff54b24b', '\x2320506c616e0a312e2077726974650d0a322e2074657374206d6f72650a');
INSERT INTO public.versions VALUES (1, 'memver_06616bd80b847b3c83998a7023d9e5a7', 'mem_06616bd80b615de9c564192b2f1f2de6', 'modified', '/memories/secret.md', 13, 'c2a8079d955d628967ba60b7025898ac8ff4894865b2162a7e03406307f58578', 'session:s2', 1795965674292347, 7, NULL, NULL, NULL, '{"integration":"python","by":[["6","session:s2","",""]]}', 'memver_06616bd80b847b3c83998a7023d9e5a7', '\x6e6f7468696e6720686572650a');
INSERT INTO public.versions VALUES (1, 'memver_06616bd80b9da04d0b487322d5b73de5', 'mem_06616bd80b615de9c564192b2f1f2de6', 'modified', '/memories/old/no-secret.md', 13, 'c2a8079d955d628967ba60b7025898ac8ff4894865b2162a7e03406307f58578', 'user:ann', 1795965674298784, 8, NULL, NULL, NULL, '{"integration":"python","by":[["6","session:s2","",""],["7","user:ann","",""]]}', 'memver_06616bd80b847b3c83998a7023d9e5a7', NULL);
INSERT INTO public.versions VALUES (1, 'memver_06616bd80b615d2bbbc86c1ebffc2b18', 'mem_06616bd80b615de9c564192b2f1f2de6', 'created', '', NULL, NULL, 'session:s2', 1795965674283357, 6, NULL, 1795965674310441, 'user:ann', NULL, NULL, NULL);
INSERT INTO public.versions VALUES (1, 'memver_06616bd80c3e3dbd4019d3dd7d8ddf5e', 'mem_06616bd80c3e3d343ae7fdb1318bf7e6', 'created', '/memories/gone.md', 8, 'ee31ef227442936872744b50d3297385c08b40ffc7baeaf34a39e6d81d6cd9ee', 'session:s1', 1795965674339901, 10, NULL, NULL, NULL, '{"integration":"python","by":[["9","session:s1","",""]]}', 'memver_06616bd80c3e3dbd4019d3dd7d8ddf5e', '\x64656c657465640a');
INSERT INTO public.versions VALUES (1, 'memver_06616bd80c4799e7c07b0d7a4e014ff2', 'mem_06616bd80c3e3d343ae7fdb1318bf7e6', 'deleted', '/memories/gone.md', NULL, NULL, 'session:s1', 1795965674342297, 11, NULL, NULL, NULL, '{"integration":"python","by":[["a","session:s1","",""]]}', NULL, NULL);
INSERT INTO public.versions VALUES (1, 'memver_06616bd80c72dd0348235057caee6460', 'mem_06616bd80afc4ecc022d3e93b180a978', 'modified', '/memories/people/Zoë 東京.md', 74, '84d21b797f3e80b6ddf6000cceaef5b260643a825c18e4d45cbae0bdf5ad8a96', 'session:s2', 1795965674353373, 12, NULL, NULL, NULL, '{"integration":"python","by":[["b","session:s2","",""]]}', 'memver_06616bd80c72dd0348235057caee6460', '\x6e61c3af766520636166c3a92c20e697a5e69cace8aa9e2c20f09f91a9e2808df09f9a802c2065cc810a0974616220616e64206e6f20656e64206f66206c696e650a0a756e646f6e650a');
INSERT INTO public.versions VALUES (1, 'memver_06616bd80cb8e424e87b6cb8eb4bde7a', 'mem_06616bd80afc4ecc022d3e93b180a978', 'modified', '/memories/people/Zoë 東京.md', 65, 'd859c9651da923fd7fe3664ce87b5ffb317b36e85c3b0b55a531fdbb7cae61c5', 'user:ann', 1795965674371300, 13, NULL, NULL, NULL, '{"integration":"python","cause":"undo of r12","by":[["1","session:s2","",""],["c","user:ann","",""]]}', 'memver_06616bd80cb8e424e87b6cb8eb4bde7a', '\x6e61c3af766520636166c3a92c20e697a5e69cace8aa9e2c20f09f91a9e2808df09f9a802c2065cc810a0974616220616e64206e6f20656e64206f66206c696e65');


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


