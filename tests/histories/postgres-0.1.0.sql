--
-- PostgreSQL database dump
--

\restrict lBt8P3p7mo102wguv2aNqcQ7bOUDLV9uBqmTmf4TBDoSxPXiQfg8BoyOPFIgVAx

-- Dumped from database version 18.4
-- Dumped by pg_dump version 18.4

SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET transaction_timeout = 0;
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
-- Name: alarms; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.alarms (
    batch_no bigint NOT NULL,
    due_at double precision NOT NULL
);


--
-- Name: api_keys; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.api_keys (
    no bigint NOT NULL,
    id text NOT NULL,
    label text NOT NULL,
    hint text NOT NULL,
    hash text NOT NULL,
    scope text NOT NULL,
    tenant text NOT NULL,
    created_at double precision NOT NULL,
    expires_at double precision,
    revoked_at double precision,
    last_used_at double precision,
    requests_per_minute bigint NOT NULL,
    max_batches bigint NOT NULL,
    max_bytes bigint NOT NULL
);


--
-- Name: api_keys_no_seq; Type: SEQUENCE; Schema: public; Owner: -
--

ALTER TABLE public.api_keys ALTER COLUMN no ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.api_keys_no_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: attempts; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.attempts (
    batch_no bigint NOT NULL,
    task_no bigint NOT NULL,
    attempt bigint NOT NULL,
    outcome text NOT NULL,
    worker text NOT NULL,
    started_at double precision NOT NULL,
    seconds double precision NOT NULL,
    error_class text,
    error text,
    cost bytea
);


--
-- Name: batches; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.batches (
    no bigint NOT NULL,
    id text NOT NULL,
    run_key text,
    pipeline text NOT NULL,
    pipeline_version bigint NOT NULL,
    plan text NOT NULL,
    stage text NOT NULL,
    phase bigint DEFAULT 0 NOT NULL,
    cursor bigint DEFAULT 0 NOT NULL,
    status text NOT NULL,
    message text,
    manifest_key text,
    total_files bigint DEFAULT 0 NOT NULL,
    last_file bigint DEFAULT 0 NOT NULL,
    last_task bigint DEFAULT 0 NOT NULL,
    next_task bigint DEFAULT 1 NOT NULL,
    created_at double precision NOT NULL,
    updated_at double precision NOT NULL,
    completed_at double precision,
    delivered_at double precision,
    error text,
    round bigint DEFAULT 1 NOT NULL,
    rank bigint,
    tier bigint DEFAULT 3 NOT NULL,
    tenant text DEFAULT ''::text NOT NULL,
    served_at double precision DEFAULT 0 NOT NULL,
    hold text,
    hold_reason text,
    mover bigint,
    phase_retries bigint DEFAULT 0 NOT NULL,
    rests_until double precision DEFAULT 0 NOT NULL,
    dispatch_at double precision DEFAULT 0 NOT NULL,
    stood text,
    started_at double precision,
    budget_seconds double precision,
    budget_tokens bigint,
    budget_money bigint,
    refused bigint DEFAULT 0 NOT NULL,
    passed_over bigint DEFAULT 0 NOT NULL,
    hands_over_to text DEFAULT ''::text NOT NULL,
    owner text,
    staged boolean DEFAULT false NOT NULL
);


--
-- Name: batch_rows; Type: VIEW; Schema: public; Owner: -
--

CREATE VIEW public.batch_rows AS
 SELECT no,
    id,
    pipeline,
    pipeline_version,
    stage,
    phase,
    cursor,
    status,
    manifest_key,
    total_files,
    last_file,
    last_task,
    created_at,
    updated_at,
    completed_at,
    error,
    plan,
    delivered_at,
    round,
    started_at,
    tier,
    tenant,
    hold,
    hold_reason,
    phase_retries,
    rests_until,
    budget_seconds,
    budget_tokens,
    budget_money,
    served_at,
    mover,
    next_task,
    rank,
    dispatch_at,
    refused,
    passed_over,
    hands_over_to
   FROM public.batches;


--
-- Name: batches_no_seq; Type: SEQUENCE; Schema: public; Owner: -
--

ALTER TABLE public.batches ALTER COLUMN no ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.batches_no_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: crew; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.crew (
    no bigint NOT NULL,
    name text NOT NULL,
    kind text NOT NULL,
    place text NOT NULL,
    beat bigint DEFAULT 0 NOT NULL,
    enlisted_at double precision NOT NULL,
    beat_at double precision NOT NULL
);


--
-- Name: crew_no_seq; Type: SEQUENCE; Schema: public; Owner: -
--

ALTER TABLE public.crew ALTER COLUMN no ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.crew_no_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: deliveries; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.deliveries (
    no bigint NOT NULL,
    id text NOT NULL,
    hook_no bigint NOT NULL,
    batch_no bigint NOT NULL,
    event_no bigint NOT NULL,
    state text DEFAULT 'waiting'::text NOT NULL,
    tries bigint DEFAULT 0 NOT NULL,
    next_at double precision,
    last_status bigint,
    last_error text DEFAULT ''::text NOT NULL,
    last_tried_at double precision,
    created_at double precision NOT NULL
);


--
-- Name: deliveries_no_seq; Type: SEQUENCE; Schema: public; Owner: -
--

ALTER TABLE public.deliveries ALTER COLUMN no ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.deliveries_no_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: events; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.events (
    no bigint NOT NULL,
    batch_no bigint NOT NULL,
    at double precision NOT NULL,
    type text NOT NULL,
    data text NOT NULL
);


--
-- Name: hooks; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.hooks (
    no bigint NOT NULL,
    id text NOT NULL,
    batch_no bigint,
    url text NOT NULL,
    secret text NOT NULL,
    kinds text[] NOT NULL,
    created_at double precision NOT NULL,
    disabled_at double precision,
    disabled_reason text DEFAULT ''::text NOT NULL
);


--
-- Name: delivery_rows; Type: VIEW; Schema: public; Owner: -
--

CREATE VIEW public.delivery_rows AS
 SELECT d.no,
    d.id,
    h.id AS hook_id,
    b.id AS batch_id,
    d.event_no,
    e.type AS kind,
    e.at AS happened_at,
    e.data,
    d.state,
    d.tries,
    d.next_at,
    d.last_status,
    d.last_error,
    d.last_tried_at,
    d.created_at,
    d.hook_no,
    d.batch_no
   FROM (((public.deliveries d
     JOIN public.hooks h ON ((h.no = d.hook_no)))
     JOIN public.batches b ON ((b.no = d.batch_no)))
     JOIN public.events e ON ((e.no = d.event_no)));


--
-- Name: events_no_seq; Type: SEQUENCE; Schema: public; Owner: -
--

ALTER TABLE public.events ALTER COLUMN no ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.events_no_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: failures; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.failures (
    batch_no bigint NOT NULL,
    error_class text NOT NULL,
    tasks bigint NOT NULL
);


--
-- Name: files; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.files (
    batch_no bigint NOT NULL,
    file_no bigint NOT NULL,
    root_no bigint NOT NULL,
    born bigint NOT NULL,
    gone bigint,
    listed boolean DEFAULT true NOT NULL,
    role text DEFAULT ''::text NOT NULL,
    path text NOT NULL COLLATE pg_catalog."C",
    folded text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL,
    key text NOT NULL,
    size bigint NOT NULL,
    content_type text NOT NULL,
    digest text DEFAULT ''::text NOT NULL,
    cid text,
    source_file text,
    tags text DEFAULT '[]'::text NOT NULL,
    config text DEFAULT '{}'::text NOT NULL,
    outcome text,
    attempts bigint DEFAULT 0 NOT NULL,
    error_class text,
    reason text,
    parent_no bigint,
    round bigint DEFAULT 1 NOT NULL,
    enters bigint DEFAULT 0 NOT NULL
);


--
-- Name: happenings; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.happenings (
    queue text NOT NULL,
    minute bigint NOT NULL,
    what text NOT NULL,
    backend bigint NOT NULL,
    number bigint NOT NULL
);


--
-- Name: hook_rows; Type: VIEW; Schema: public; Owner: -
--

CREATE VIEW public.hook_rows AS
 SELECT h.id,
    h.url,
    h.secret,
    COALESCE(b.id, ''::text) AS batch_id,
    h.kinds,
    h.created_at,
    h.disabled_at,
    h.disabled_reason,
    h.no,
    h.batch_no
   FROM (public.hooks h
     LEFT JOIN public.batches b ON ((b.no = h.batch_no)));


--
-- Name: hooks_no_seq; Type: SEQUENCE; Schema: public; Owner: -
--

ALTER TABLE public.hooks ALTER COLUMN no ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.hooks_no_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: members; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.members (
    batch_no bigint NOT NULL,
    unit_no bigint NOT NULL,
    file_no bigint NOT NULL
);


--
-- Name: messages; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.messages (
    no bigint NOT NULL,
    queue text NOT NULL,
    id text NOT NULL,
    body bytea NOT NULL,
    state text DEFAULT 'waiting'::text NOT NULL,
    due_at double precision NOT NULL,
    token text,
    deliveries bigint DEFAULT 0 NOT NULL,
    sent_at double precision NOT NULL,
    ended_at double precision,
    trials text[] DEFAULT '{}'::text[] CONSTRAINT messages_errors_not_null NOT NULL,
    priority smallint DEFAULT 3 NOT NULL,
    worker text DEFAULT ''::text NOT NULL,
    error_class text DEFAULT ''::text NOT NULL,
    buried_no bigint
);


--
-- Name: messages_buried_no; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.messages_buried_no
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: messages_buried_no; Type: SEQUENCE OWNED BY; Schema: public; Owner: -
--

ALTER SEQUENCE public.messages_buried_no OWNED BY public.messages.buried_no;


--
-- Name: messages_no; Type: SEQUENCE; Schema: public; Owner: -
--

ALTER TABLE public.messages ALTER COLUMN no ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.messages_no
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: migrations; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.migrations (
    room text NOT NULL,
    number bigint NOT NULL,
    name text NOT NULL
);


--
-- Name: outbox; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.outbox (
    no bigint NOT NULL,
    queue text NOT NULL,
    message_id text NOT NULL,
    body bytea NOT NULL,
    created_at double precision NOT NULL
);


--
-- Name: outbox_no_seq; Type: SEQUENCE; Schema: public; Owner: -
--

ALTER TABLE public.outbox ALTER COLUMN no ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.outbox_no_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: ranks; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.ranks (
    batch_no bigint NOT NULL,
    round bigint NOT NULL,
    phase bigint NOT NULL,
    rank bigint NOT NULL,
    total bigint NOT NULL
);


--
-- Name: rounds; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.rounds (
    batch_no bigint NOT NULL,
    round bigint NOT NULL,
    phase bigint NOT NULL,
    name text NOT NULL,
    first_task bigint NOT NULL,
    total bigint DEFAULT 0 NOT NULL,
    done bigint DEFAULT 0 NOT NULL,
    failed bigint DEFAULT 0 NOT NULL,
    cached bigint DEFAULT 0 NOT NULL,
    rank_left bigint DEFAULT 0 NOT NULL,
    seconds double precision DEFAULT 0 NOT NULL,
    bytes_in bigint DEFAULT 0 NOT NULL,
    bytes_out bigint DEFAULT 0 NOT NULL,
    tokens_in bigint DEFAULT 0 NOT NULL,
    tokens_out bigint DEFAULT 0 NOT NULL,
    money bigint DEFAULT 0 NOT NULL
);


--
-- Name: step_cache; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.step_cache (
    key text NOT NULL COLLATE pg_catalog."C",
    result bytea NOT NULL,
    made_at double precision NOT NULL
);


--
-- Name: strays; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.strays (
    no bigint NOT NULL,
    batch_no bigint NOT NULL,
    task_no bigint NOT NULL,
    attempt bigint NOT NULL,
    outcome text NOT NULL,
    worker text NOT NULL,
    received_at double precision NOT NULL,
    kind text DEFAULT 'late'::text NOT NULL
);


--
-- Name: strays_no_seq; Type: SEQUENCE; Schema: public; Owner: -
--

ALTER TABLE public.strays ALTER COLUMN no ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.strays_no_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: submissions; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.submissions (
    batch_no bigint NOT NULL,
    session_id text NOT NULL,
    uploader text NOT NULL,
    root_path text NOT NULL,
    parent_pi text NOT NULL,
    file_count bigint NOT NULL,
    total_size bigint NOT NULL,
    metadata text NOT NULL,
    custom_prompts text NOT NULL,
    owner text NOT NULL,
    idempotency_key text,
    fingerprint text NOT NULL,
    files_announced bigint DEFAULT 0 NOT NULL,
    files_taken bigint DEFAULT 0 NOT NULL,
    bytes_taken bigint DEFAULT 0 NOT NULL,
    revision bigint DEFAULT 0 NOT NULL,
    active_at double precision NOT NULL,
    finalized_at double precision,
    swept_at double precision
);


--
-- Name: tasks; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.tasks (
    batch_no bigint NOT NULL,
    task_no bigint NOT NULL,
    phase bigint NOT NULL,
    file_no bigint NOT NULL,
    state text DEFAULT 'ready'::text NOT NULL,
    attempt bigint DEFAULT 0 NOT NULL,
    failures bigint DEFAULT 0 NOT NULL,
    interruptions bigint DEFAULT 0 NOT NULL,
    cached boolean DEFAULT false NOT NULL,
    started_at double precision,
    due_at double precision,
    result bytea,
    error_class text,
    error text,
    round bigint DEFAULT 1 NOT NULL,
    rank bigint,
    member bigint,
    outcome text,
    worker text,
    seconds double precision,
    cost bytea
);


--
-- Name: uploads; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.uploads (
    batch_no bigint NOT NULL,
    path text NOT NULL COLLATE pg_catalog."C",
    state text NOT NULL,
    size bigint DEFAULT 0 NOT NULL,
    stamp text DEFAULT ''::text NOT NULL,
    key text DEFAULT ''::text NOT NULL,
    digest text DEFAULT ''::text NOT NULL,
    content_type text DEFAULT ''::text NOT NULL,
    error_class text DEFAULT ''::text NOT NULL,
    reason text DEFAULT ''::text NOT NULL,
    cid text,
    config text DEFAULT '{}'::text NOT NULL,
    upload_id text DEFAULT ''::text NOT NULL,
    taken_at double precision,
    source_file text,
    tags text DEFAULT '[]'::text NOT NULL,
    folder text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C"
);


--
-- Data for Name: alarms; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: api_keys; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.api_keys OVERRIDING SYSTEM VALUE VALUES (1, 'key_01M7P4PWR5W6J97JM2MTHRF24N', 'valid', 'qk_A8m9t4', '04fa80f750fa56f53dbc4df2acc79a443b550e569e4d48bd85e179cf29dfd456', 'operate', '', 1794965730.0530932, NULL, NULL, NULL, 0, 0, 0);
INSERT INTO public.api_keys OVERRIDING SYSTEM VALUE VALUES (2, 'key_01M7P4PXP47CV7B3YTHTAJR99Y', 'revoked', 'qk_aCS3h3', '0f95aca84f173117a98675bdfb6e1dabbd3e35a96f1a81ac542ee0a8e29fac0e', 'operate', '', 1794965731.0125294, NULL, 1794965731.847173, NULL, 0, 0, 0);


--
-- Data for Name: attempts; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.attempts VALUES (1, 3, 1, 'timed_out', 'local-15060', 1794965733.4770973, 0.285422269999799, 'timeout', 'the step image_variants gave no result within 0.15 s and was stopped', NULL);
INSERT INTO public.attempts VALUES (1, 3, 2, 'timed_out', 'local-15058', 1794965733.8284957, 0.19445855100002518, 'timeout', 'the step image_variants gave no result within 0.15 s and was stopped', NULL);


--
-- Data for Name: batches; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.batches OVERRIDING SYSTEM VALUE VALUES (1, '01M7P4PZMHDEJN9ETM6QD8BM80', '70d625fdfd0c31d1b493bfbfbbdbb2c310ee10e6bec69ac04d7c84840c0e8091', 'preprocess', 2, '{"name":"preprocess","phases":[{"max_attempts":3,"memory_mb":2048,"name":"PDF_SPLIT","options":{"cid_profile":"unixfs-v1-2025","dpi":200,"max_pages":10000,"max_pixels":150000000,"max_total_bytes":10000000000,"pages":"none","quality":95},"step":"pdf_split","timeout_seconds":3600.0,"version":1},{"max_attempts":3,"memory_mb":2048,"name":"TIFF_CONVERSION","options":{"all_pages":true,"cid_profile":"unixfs-v1-2025","max_pixels":500000000,"max_total_pixels":10000000000,"quality":95},"step":"tiff_to_jpeg","timeout_seconds":60.0,"version":1},{"max_attempts":3,"memory_mb":2048,"name":"IMAGE_PROCESSING","options":{"cid_profile":"unixfs-v1-2025","max_pixels":500000000,"public_url":"http://localhost:8787","quality":85},"step":"image_variants","timeout_seconds":0.15,"version":2}],"version":2}', 'done', 3, 0, 'DONE', '{"batch_id":"01M7P4PZMHDEJN9ETM6QD8BM80","manifest_r2_key":"batches/01M7P4PZMHDEJN9ETM6QD8BM80/manifest.json","r2_prefix":"","uploader":"","root_path":"/","parent_pi":"00000000000000000000000000","total_files":3,"total_bytes":253056,"uploaded_at":"2026-11-18T01:35:33.009Z","finalized_at":"2026-11-18T01:35:33.063Z","metadata":{}}', 'batches/01M7P4PZMHDEJN9ETM6QD8BM80/manifest.json', 3, 6, 4, 5, 1794965733.0095372, 1794965734.298684, 1794965734.298684, 1794965734.5894177, NULL, 1, NULL, 3, '', 1794965734.0534234, NULL, NULL, NULL, 0, 0, 0, 'transforming', 1794965733.1069007, NULL, NULL, NULL, 0, 0, '', NULL, false);
INSERT INTO public.batches OVERRIDING SYSTEM VALUE VALUES (2, '01M7P4Q2HMZG6298XQ01ZMQB5M', NULL, 'preprocess', 2, '{"name":"preprocess","phases":[{"max_attempts":3,"memory_mb":2048,"name":"PDF_SPLIT","options":{"cid_profile":"unixfs-v1-2025","dpi":200,"max_pages":10000,"max_pixels":150000000,"max_total_bytes":10000000000,"pages":"none","quality":95},"step":"pdf_split","timeout_seconds":3600.0,"version":1},{"max_attempts":3,"memory_mb":2048,"name":"TIFF_CONVERSION","options":{"all_pages":true,"cid_profile":"unixfs-v1-2025","max_pixels":500000000,"max_total_pixels":10000000000,"quality":95},"step":"tiff_to_jpeg","timeout_seconds":60.0,"version":1},{"max_attempts":3,"memory_mb":2048,"name":"IMAGE_PROCESSING","options":{"cid_profile":"unixfs-v1-2025","max_pixels":500000000,"public_url":"http://localhost:8787","quality":85},"step":"image_variants","timeout_seconds":120.0,"version":2}],"version":2}', 'error', 0, 0, 'ERROR', '{"batch_id":"01M7P4Q2HMZG6298XQ01ZMQB5M","manifest_r2_key":"staging/01M7P4Q2HMZG6298XQ01ZMQB5M/_manifest.json","r2_prefix":"staging/01M7P4Q2HMZG6298XQ01ZMQB5M/","uploader":"ada","root_path":"/","parent_pi":"00000000000000000000000000","total_files":1,"total_bytes":454,"uploaded_at":"2026-11-18T01:35:35.988Z","finalized_at":"2026-11-18T01:35:36.216Z","metadata":{}}', 'staging/01M7P4Q2HMZG6298XQ01ZMQB5M/_manifest.json', 1, 0, 0, 1, 1794965735.988681, 1794965737.232107, 1794965737.232107, NULL, 'the batch could not start: There is no blob ''staging/01M7P4Q2HMZG6298XQ01ZMQB5M/_manifest.json''.', 1, NULL, 3, '', 1794965735.988681, NULL, NULL, NULL, 0, 0, 0, 'queued', NULL, NULL, NULL, NULL, 0, 0, 'arke-batch-jobs', 'key_01M7P4PWR5W6J97JM2MTHRF24N', true);
INSERT INTO public.batches OVERRIDING SYSTEM VALUE VALUES (3, '01M7P4Q7S27T5PZXDJ6CW3TJ9Z', '44b192629790facfbcb086a81ec4caab8bc883ae5a768b91fc50109023b74dac', 'preprocess', 2, '{"name":"preprocess","phases":[{"max_attempts":3,"memory_mb":2048,"name":"PDF_SPLIT","options":{"cid_profile":"unixfs-v1-2025","dpi":200,"max_pages":10000,"max_pixels":150000000,"max_total_bytes":10000000000,"pages":"none","quality":95},"step":"pdf_split","timeout_seconds":3600.0,"version":1},{"max_attempts":3,"memory_mb":2048,"name":"TIFF_CONVERSION","options":{"all_pages":true,"cid_profile":"unixfs-v1-2025","max_pixels":500000000,"max_total_pixels":10000000000,"quality":95},"step":"tiff_to_jpeg","timeout_seconds":60.0,"version":1},{"max_attempts":3,"memory_mb":2048,"name":"IMAGE_PROCESSING","options":{"cid_profile":"unixfs-v1-2025","max_pixels":500000000,"public_url":"http://localhost:8787","quality":85},"step":"image_variants","timeout_seconds":120.0,"version":2}],"version":2}', 'working', 3, 0, 'IMAGE_PROCESSING', '{"batch_id":"01M7P4Q7S27T5PZXDJ6CW3TJ9Z","manifest_r2_key":"batches/01M7P4Q7S27T5PZXDJ6CW3TJ9Z/manifest.json","r2_prefix":"","uploader":"","root_path":"/","parent_pi":"00000000000000000000000000","total_files":18,"total_bytes":109695,"uploaded_at":"2026-11-18T01:35:41.346Z","finalized_at":"2026-11-18T01:35:41.404Z","metadata":{}}', 'batches/01M7P4Q7S27T5PZXDJ6CW3TJ9Z/manifest.json', 18, 32, 31, 18, 1794965741.3467648, 1794965742.063623, NULL, NULL, NULL, 1, NULL, 3, '', 1794965742.07022, NULL, NULL, NULL, 0, 0, 0, NULL, 1794965741.4162576, NULL, NULL, NULL, 1, 0, '', NULL, false);
INSERT INTO public.batches OVERRIDING SYSTEM VALUE VALUES (5, '01M7P4QA2KVJBKTKE6WDRS6693', NULL, 'preprocess', 2, '{"name":"preprocess","phases":[{"max_attempts":3,"memory_mb":2048,"name":"PDF_SPLIT","options":{"cid_profile":"unixfs-v1-2025","dpi":200,"max_pages":10000,"max_pixels":150000000,"max_total_bytes":10000000000,"pages":"none","quality":95},"step":"pdf_split","timeout_seconds":3600.0,"version":1},{"max_attempts":3,"memory_mb":2048,"name":"TIFF_CONVERSION","options":{"all_pages":true,"cid_profile":"unixfs-v1-2025","max_pixels":500000000,"max_total_pixels":10000000000,"quality":95},"step":"tiff_to_jpeg","timeout_seconds":60.0,"version":1},{"max_attempts":3,"memory_mb":2048,"name":"IMAGE_PROCESSING","options":{"cid_profile":"unixfs-v1-2025","max_pixels":500000000,"public_url":"http://localhost:8787","quality":85},"step":"image_variants","timeout_seconds":120.0,"version":2}],"version":2}', 'queued', 0, 0, 'QUEUED', '{"batch_id":"01M7P4QA2KVJBKTKE6WDRS6693","manifest_r2_key":"staging/01M7P4QA2KVJBKTKE6WDRS6693/_manifest.json","r2_prefix":"staging/01M7P4QA2KVJBKTKE6WDRS6693/","uploader":"ada","root_path":"/","parent_pi":"00000000000000000000000000","total_files":1,"total_bytes":456,"uploaded_at":"2026-11-18T01:35:43.699Z","finalized_at":"2026-11-18T01:35:43.755Z","metadata":{}}', 'staging/01M7P4QA2KVJBKTKE6WDRS6693/_manifest.json', 1, 0, 0, 1, 1794965743.6996536, 1794965743.7552836, NULL, NULL, NULL, 1, NULL, 3, '', 1794965743.6996536, NULL, NULL, NULL, 0, 0, 0, NULL, NULL, NULL, NULL, NULL, 0, 0, 'arke-batch-jobs', 'key_01M7P4PWR5W6J97JM2MTHRF24N', true);
INSERT INTO public.batches OVERRIDING SYSTEM VALUE VALUES (4, '01M7P4Q9XHSPNPW8SYE81517C7', NULL, 'preprocess', 2, '{"name":"preprocess","phases":[{"max_attempts":3,"memory_mb":2048,"name":"PDF_SPLIT","options":{"cid_profile":"unixfs-v1-2025","dpi":200,"max_pages":10000,"max_pixels":150000000,"max_total_bytes":10000000000,"pages":"none","quality":95},"step":"pdf_split","timeout_seconds":3600.0,"version":1},{"max_attempts":3,"memory_mb":2048,"name":"TIFF_CONVERSION","options":{"all_pages":true,"cid_profile":"unixfs-v1-2025","max_pixels":500000000,"max_total_pixels":10000000000,"quality":95},"step":"tiff_to_jpeg","timeout_seconds":60.0,"version":1},{"max_attempts":3,"memory_mb":2048,"name":"IMAGE_PROCESSING","options":{"cid_profile":"unixfs-v1-2025","max_pixels":500000000,"public_url":"http://localhost:8787","quality":85},"step":"image_variants","timeout_seconds":120.0,"version":2}],"version":2}', 'open', 0, 0, 'OPEN', NULL, NULL, 0, 0, 0, 1, 1794965743.5379457, 1794965744.5788796, NULL, NULL, NULL, 1, NULL, 2, '', 1794965743.5379457, NULL, NULL, NULL, 0, 0, 0, NULL, NULL, NULL, NULL, NULL, 0, 0, 'arke-batch-jobs', 'key_01M7P4PWR5W6J97JM2MTHRF24N', true);


--
-- Data for Name: crew; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.crew OVERRIDING SYSTEM VALUE VALUES (3, '01M7P4Q7G0BHH3A9DVCXT8X5A0', 'run', 'recorder:15350', 0, 1794965741.4075544, 1794965741.4075544);


--
-- Data for Name: deliveries; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.deliveries OVERRIDING SYSTEM VALUE VALUES (1, 'msg_15_hook_01M7P4Q5M71W8V69GR88X6Y9DH', 1, 3, 15, 'waiting', 1, 1794965748.0742085, NULL, 'no connection: All connection attempts failed', 1794965743.5323503, 1794965741.3467648);
INSERT INTO public.deliveries OVERRIDING SYSTEM VALUE VALUES (3, 'msg_17_hook_01M7P4Q5M71W8V69GR88X6Y9DH', 1, 3, 17, 'waiting', 1, 1794965748.2955017, NULL, 'no connection: All connection attempts failed', 1794965743.5371873, 1794965741.4162576);
INSERT INTO public.deliveries OVERRIDING SYSTEM VALUE VALUES (5, 'msg_19_hook_01M7P4Q5M71W8V69GR88X6Y9DH', 1, 3, 19, 'waiting', 1, 1794965748.2464504, NULL, 'no connection: All connection attempts failed', 1794965743.5385227, 1794965741.468363);
INSERT INTO public.deliveries OVERRIDING SYSTEM VALUE VALUES (4, 'msg_18_hook_01M7P4Q5M71W8V69GR88X6Y9DH', 1, 3, 18, 'waiting', 1, 1794965748.2180295, NULL, 'no connection: All connection attempts failed', 1794965743.539765, 1794965741.4341984);
INSERT INTO public.deliveries OVERRIDING SYSTEM VALUE VALUES (6, 'msg_20_hook_01M7P4Q5M71W8V69GR88X6Y9DH', 1, 3, 20, 'waiting', 1, 1794965748.426487, NULL, 'no connection: All connection attempts failed', 1794965743.5402856, 1794965742.036171);
INSERT INTO public.deliveries OVERRIDING SYSTEM VALUE VALUES (2, 'msg_16_hook_01M7P4Q5M71W8V69GR88X6Y9DH', 1, 3, 16, 'waiting', 1, 1794965748.2648382, NULL, 'no connection: All connection attempts failed', 1794965743.5442853, 1794965741.404278);
INSERT INTO public.deliveries OVERRIDING SYSTEM VALUE VALUES (7, 'msg_21_hook_01M7P4Q5M71W8V69GR88X6Y9DH', 1, 4, 21, 'waiting', 1, 1794965748.1897705, NULL, 'no connection: All connection attempts failed', 1794965743.554286, 1794965743.5379457);
INSERT INTO public.deliveries OVERRIDING SYSTEM VALUE VALUES (8, 'msg_22_hook_01M7P4Q5M71W8V69GR88X6Y9DH', 1, 5, 22, 'waiting', 1, 1794965748.5065916, NULL, 'no connection: All connection attempts failed', 1794965743.772288, 1794965743.6996536);
INSERT INTO public.deliveries OVERRIDING SYSTEM VALUE VALUES (9, 'msg_23_hook_01M7P4Q5M71W8V69GR88X6Y9DH', 1, 5, 23, 'waiting', 1, 1794965748.4317145, NULL, 'no connection: All connection attempts failed', 1794965743.7737546, 1794965743.7552836);
INSERT INTO public.deliveries OVERRIDING SYSTEM VALUE VALUES (10, 'msg_24_hook_01M7P4Q5M71W8V69GR88X6Y9DH', 1, 4, 24, 'waiting', 0, 1794965744.5788796, NULL, '', NULL, 1794965744.5788796);


--
-- Data for Name: events; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.events OVERRIDING SYSTEM VALUE VALUES (1, 0, 1794965730.0548613, 'key_created', '{"actor": "root@recorder", "reason": "", "key": "key_01M7P4PWR5W6J97JM2MTHRF24N", "scope": "operate"}');
INSERT INTO public.events OVERRIDING SYSTEM VALUE VALUES (2, 0, 1794965731.014185, 'key_created', '{"actor": "root@recorder", "reason": "", "key": "key_01M7P4PXP47CV7B3YTHTAJR99Y", "scope": "operate"}');
INSERT INTO public.events OVERRIDING SYSTEM VALUE VALUES (3, 0, 1794965731.8487744, 'key_revoked', '{"actor": "root@recorder", "reason": "", "key": "key_01M7P4PXP47CV7B3YTHTAJR99Y"}');
INSERT INTO public.events OVERRIDING SYSTEM VALUE VALUES (4, 1, 1794965733.0095372, 'batch_opened', '{"pipeline": "preprocess"}');
INSERT INTO public.events OVERRIDING SYSTEM VALUE VALUES (5, 1, 1794965733.0639105, 'batch_finalized', '{"total_files": 3}');
INSERT INTO public.events OVERRIDING SYSTEM VALUE VALUES (6, 1, 1794965733.1069007, 'batch_started', '{}');
INSERT INTO public.events OVERRIDING SYSTEM VALUE VALUES (7, 1, 1794965733.1264234, 'phase_started', '{"phase": "PDF_SPLIT", "round": 1}');
INSERT INTO public.events OVERRIDING SYSTEM VALUE VALUES (8, 1, 1794965733.1653733, 'phase_started', '{"phase": "TIFF_CONVERSION", "round": 1}');
INSERT INTO public.events OVERRIDING SYSTEM VALUE VALUES (9, 1, 1794965733.444035, 'phase_started', '{"phase": "IMAGE_PROCESSING", "round": 1}');
INSERT INTO public.events OVERRIDING SYSTEM VALUE VALUES (10, 1, 1794965734.298684, 'batch_done', '{"round": 1}');
INSERT INTO public.events OVERRIDING SYSTEM VALUE VALUES (11, 2, 1794965735.988681, 'batch_opened', '{"pipeline": "preprocess"}');
INSERT INTO public.events OVERRIDING SYSTEM VALUE VALUES (12, 2, 1794965736.216446, 'batch_finalized', '{"total_files": 1}');
INSERT INTO public.events OVERRIDING SYSTEM VALUE VALUES (13, 2, 1794965737.232107, 'batch_failed', '{"reason": "the batch could not start: There is no blob ''staging/01M7P4Q2HMZG6298XQ01ZMQB5M/_manifest.json''."}');
INSERT INTO public.events OVERRIDING SYSTEM VALUE VALUES (14, 0, 1794965739.1475499, 'webhook_added', '{"actor": "root@recorder", "reason": "", "webhook": "hook_01M7P4Q5M71W8V69GR88X6Y9DH", "batch_id": ""}');
INSERT INTO public.events OVERRIDING SYSTEM VALUE VALUES (15, 3, 1794965741.3467648, 'batch_opened', '{"pipeline": "preprocess"}');
INSERT INTO public.events OVERRIDING SYSTEM VALUE VALUES (16, 3, 1794965741.404278, 'batch_finalized', '{"total_files": 18}');
INSERT INTO public.events OVERRIDING SYSTEM VALUE VALUES (17, 3, 1794965741.4162576, 'batch_started', '{}');
INSERT INTO public.events OVERRIDING SYSTEM VALUE VALUES (18, 3, 1794965741.4341984, 'phase_started', '{"phase": "PDF_SPLIT", "round": 1}');
INSERT INTO public.events OVERRIDING SYSTEM VALUE VALUES (19, 3, 1794965741.468363, 'phase_started', '{"phase": "TIFF_CONVERSION", "round": 1}');
INSERT INTO public.events OVERRIDING SYSTEM VALUE VALUES (20, 3, 1794965742.036171, 'phase_started', '{"phase": "IMAGE_PROCESSING", "round": 1}');
INSERT INTO public.events OVERRIDING SYSTEM VALUE VALUES (21, 4, 1794965743.5379457, 'batch_opened', '{"pipeline": "preprocess"}');
INSERT INTO public.events OVERRIDING SYSTEM VALUE VALUES (22, 5, 1794965743.6996536, 'batch_opened', '{"pipeline": "preprocess"}');
INSERT INTO public.events OVERRIDING SYSTEM VALUE VALUES (23, 5, 1794965743.7552836, 'batch_finalized', '{"total_files": 1}');
INSERT INTO public.events OVERRIDING SYSTEM VALUE VALUES (24, 4, 1794965744.5788796, 'batch_prioritised', '{"actor": "root@recorder", "reason": "", "tier": 2}');


--
-- Data for Name: failures; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.failures VALUES (1, 'corrupt', 1);
INSERT INTO public.failures VALUES (1, 'timeout', 1);
INSERT INTO public.failures VALUES (3, 'corrupt', 1);


--
-- Data for Name: files; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.files VALUES (1, 1, 1, 0, NULL, true, 'input', 'damaged.tif', 'damaged.tif', 'damaged.tif', 'cas/63/634ea042bfb13dfc5564378d5682b1429a06350841cf35e2bf338a33d97b38fd', 263, 'image/tiff', '634ea042bfb13dfc5564378d5682b1429a06350841cf35e2bf338a33d97b38fd', NULL, NULL, '[]', '{}', 'failed', 1, 'corrupt', 'the picture is damaged (tiff2vips: samples out of range). Send the file again from its source.', NULL, 1, 0);
INSERT INTO public.files VALUES (1, 5, 2, 3, NULL, false, 'thumb', 'good.jpg.thumb.jpg', 'good.jpg.thumb.jpg', 'good.jpg.thumb.jpg', 'cas/8d/8db25dc0b8e853094ee01e6f6dbde1f8fabd7c727c76f42ca87e4bcb72099e59', 2188, 'image/jpeg', '8db25dc0b8e853094ee01e6f6dbde1f8fabd7c727c76f42ca87e4bcb72099e59', NULL, 'good.jpg', '["ImageProcessor"]', '{}', NULL, 0, NULL, NULL, 4, 1, 0);
INSERT INTO public.files VALUES (1, 6, 2, 3, NULL, true, 'ref', 'good.jpg.ref.json', 'good.jpg.ref.json', 'good.jpg.ref.json', 'cas/a3/a3fda6e6df943861dbf127db80969a210475fb8b8572524c6a4d46df5972a42e', 213, 'application/json', 'a3fda6e6df943861dbf127db80969a210475fb8b8572524c6a4d46df5972a42e', 'bafkreifd7wtonx4uhbq5x4jh3oajngrbar27xc4fojjey2sni3pvs4vefy', 'good.jpg', '["ImageProcessor"]', '{}', NULL, 0, NULL, NULL, 4, 1, 0);
INSERT INTO public.files VALUES (1, 4, 2, 2, 3, true, 'jpeg', 'good.jpg', 'good.jpg', 'good.jpg', 'cas/07/07778704570e330e134860bda7cf5adedad1928caeef38229a66e577236dfecd', 14148, 'image/jpeg', '07778704570e330e134860bda7cf5adedad1928caeef38229a66e577236dfecd', 'bafkreiaho6dqivyogmhbgsdaxwt46ww63lizfdfo544cfgtg4v3sg3p6zu', 'good.tif', '["TiffConverter"]', '{}', NULL, 0, NULL, NULL, 2, 1, 0);
INSERT INTO public.files VALUES (1, 2, 2, 0, NULL, true, 'input', 'good.tif', 'good.tif', 'good.tif', 'cas/3c/3c23aa2360b25094a96cd246dff841e47e828d50413b0e7d278d23e9cf8b7302', 927, 'image/tiff', '3c23aa2360b25094a96cd246dff841e47e828d50413b0e7d278d23e9cf8b7302', NULL, NULL, '["TiffConverter:source"]', '{}', 'done', 2, NULL, NULL, NULL, 1, 0);
INSERT INTO public.files VALUES (1, 3, 3, 0, NULL, true, 'input', 'huge.png', 'huge.png', 'huge.png', 'cas/48/48dd71341abaf6777307a16fee05d1f777337c85ef2336e3d70cc4fe2548e44f', 251866, 'image/png', '48dd71341abaf6777307a16fee05d1f777337c85ef2336e3d70cc4fe2548e44f', NULL, NULL, '[]', '{}', 'failed', 3, 'timeout', 'the step image_variants gave no result within 0.15 s and was stopped', NULL, 1, 0);
INSERT INTO public.files VALUES (3, 12, 12, 0, NULL, true, 'input', 'photos/10 exif.jpg', 'photos/10 exif.jpg', '10 exif.jpg', 'cas/29/29d511287ad90028ab19e5c6651a25d4e17220549fca0d0f155eb3dd0bbbde02', 10897, 'image/jpeg', '29d511287ad90028ab19e5c6651a25d4e17220549fca0d0f155eb3dd0bbbde02', NULL, NULL, '[]', '{}', NULL, 0, NULL, NULL, NULL, 1, 0);
INSERT INTO public.files VALUES (3, 13, 13, 0, NULL, true, 'input', 'photos/11 page.png', 'photos/11 page.png', '11 page.png', 'cas/8b/8b78f03821e57eec1c3ea3e15f1decb0cd1114322ffceaa1e27c4db91c3eb658', 6862, 'image/png', '8b78f03821e57eec1c3ea3e15f1decb0cd1114322ffceaa1e27c4db91c3eb658', NULL, NULL, '[]', '{}', NULL, 0, NULL, NULL, NULL, 1, 0);
INSERT INTO public.files VALUES (3, 14, 14, 0, NULL, true, 'input', 'photos/12 wide.png', 'photos/12 wide.png', '12 wide.png', 'cas/8f/8f8538922403c8b020ce6db15eda7cf2d47834eb160c77edacfaf742f33445b6', 62442, 'image/png', '8f8538922403c8b020ce6db15eda7cf2d47834eb160c77edacfaf742f33445b6', NULL, NULL, '[]', '{}', NULL, 0, NULL, NULL, NULL, 1, 0);
INSERT INTO public.files VALUES (3, 15, 15, 0, NULL, true, 'input', 'photos/13 small 305.png', 'photos/13 small 305.png', '13 small 305.png', 'cas/ac/acb04b7e3d7b777ec5f9129e4b333ff44a2bd1d17a40e1b557821b8b788c8f16', 459, 'image/png', 'acb04b7e3d7b777ec5f9129e4b333ff44a2bd1d17a40e1b557821b8b788c8f16', NULL, NULL, '[]', '{}', NULL, 0, NULL, NULL, NULL, 1, 0);
INSERT INTO public.files VALUES (3, 16, 16, 0, NULL, true, 'input', 'photos/13 small 306.png', 'photos/13 small 306.png', '13 small 306.png', 'cas/f1/f11fde4d224ccda361242ff26a90335949da41ff00d4900bae2dc64cf4490ca0', 462, 'image/png', 'f11fde4d224ccda361242ff26a90335949da41ff00d4900bae2dc64cf4490ca0', NULL, NULL, '[]', '{}', NULL, 0, NULL, NULL, NULL, 1, 0);
INSERT INTO public.files VALUES (3, 17, 17, 0, NULL, true, 'input', 'photos/13 small 307.png', 'photos/13 small 307.png', '13 small 307.png', 'cas/26/264f293c602a5ef1e44d0e1777b891192d63144338a63795b7d8f4ee444b2951', 463, 'image/png', '264f293c602a5ef1e44d0e1777b891192d63144338a63795b7d8f4ee444b2951', NULL, NULL, '[]', '{}', NULL, 0, NULL, NULL, NULL, 1, 0);
INSERT INTO public.files VALUES (3, 18, 18, 0, NULL, true, 'input', 'photos/14 book.pdf', 'photos/14 book.pdf', '14 book.pdf', 'cas/50/5087c2afe763d145537d652bb3bc6c321ace3a267b2679ae2c178add3ba7f1d9', 6605, 'application/pdf', '5087c2afe763d145537d652bb3bc6c321ace3a267b2679ae2c178add3ba7f1d9', NULL, NULL, '[]', '{}', NULL, 0, NULL, NULL, NULL, 1, 0);
INSERT INTO public.files VALUES (3, 19, 2, 2, NULL, true, 'jpeg', 'letters/01 fax.jpg', 'letters/01 fax.jpg', '01 fax.jpg', 'cas/07/07778704570e330e134860bda7cf5adedad1928caeef38229a66e577236dfecd', 14148, 'image/jpeg', '07778704570e330e134860bda7cf5adedad1928caeef38229a66e577236dfecd', 'bafkreiaho6dqivyogmhbgsdaxwt46ww63lizfdfo544cfgtg4v3sg3p6zu', '01 fax.tif', '["TiffConverter"]', '{}', NULL, 0, NULL, NULL, 2, 1, 0);
INSERT INTO public.files VALUES (3, 20, 3, 2, NULL, true, 'jpeg', 'letters/02 colours.jpg', 'letters/02 colours.jpg', '02 colours.jpg', 'cas/eb/ebfe79d5ad17eecbbb9ffd5a3f269fed943882ce6caa4d7e023f35a096cff6e6', 619, 'image/jpeg', 'ebfe79d5ad17eecbbb9ffd5a3f269fed943882ce6caa4d7e023f35a096cff6e6', 'bafkreihl7z45llix53f3xh75li7snh7nsq4ifttmvjgx4ar7gwqjnt7w4y', '02 colours.tiff', '["TiffConverter"]', '{}', NULL, 0, NULL, NULL, 3, 1, 0);
INSERT INTO public.files VALUES (3, 21, 3, 2, NULL, true, 'jpeg', 'letters/02 colours-p002.jpg', 'letters/02 colours-p002.jpg', '02 colours-p002.jpg', 'cas/92/925ea5db01cec77ffd647a5b041f08e4856a75296a72933e1a36138ac24e2149', 620, 'image/jpeg', '925ea5db01cec77ffd647a5b041f08e4856a75296a72933e1a36138ac24e2149', 'bafkreiesl2s5waooy5772zd2lmcb6cheqvvhkklkokjt4grwcofmetrbje', '02 colours.tiff', '["TiffConverter"]', '{}', NULL, 0, NULL, NULL, 3, 1, 0);
INSERT INTO public.files VALUES (3, 22, 3, 2, NULL, true, 'jpeg', 'letters/02 colours-p003.jpg', 'letters/02 colours-p003.jpg', '02 colours-p003.jpg', 'cas/60/6014870b52245c5c39e47599ba11afef89af5b393497bd4f9d84804932b2bed9', 628, 'image/jpeg', '6014870b52245c5c39e47599ba11afef89af5b393497bd4f9d84804932b2bed9', 'bafkreidacsdqwurelrodtzdvtg5bdl7prgxvwojus66u7hmeqbetfmv63e', '02 colours.tiff', '["TiffConverter"]', '{}', NULL, 0, NULL, NULL, 3, 1, 0);
INSERT INTO public.files VALUES (3, 23, 4, 2, NULL, true, 'jpeg', 'letters/03 large.jpg', 'letters/03 large.jpg', '03 large.jpg', 'cas/30/30ce9cac33c0adef25038279664b5b4a183e34c65b76fb089eec0928c1b0bbc2', 186917, 'image/jpeg', '30ce9cac33c0adef25038279664b5b4a183e34c65b76fb089eec0928c1b0bbc2', 'bafkreibqz2okym6avxxska4cpfteww2kda7djrs3o35qrhxmbeumdmf3yi', '03 large.tif', '["TiffConverter"]', '{}', NULL, 0, NULL, NULL, 4, 1, 0);
INSERT INTO public.files VALUES (3, 24, 4, 2, NULL, true, 'jpeg', 'letters/03 large-p002.jpg', 'letters/03 large-p002.jpg', '03 large-p002.jpg', 'cas/e2/e2556a7128f83728fc58d1def5feab6ce956d13332218e9769900550bdc14474', 187283, 'image/jpeg', 'e2556a7128f83728fc58d1def5feab6ce956d13332218e9769900550bdc14474', 'bafkreihckvvhckhyg4upywgr33275k3m5flncmzseghjo2mqavil3qkeoq', '03 large.tif', '["TiffConverter"]', '{}', NULL, 0, NULL, NULL, 4, 1, 0);
INSERT INTO public.files VALUES (3, 25, 4, 2, NULL, true, 'jpeg', 'letters/03 large-p003.jpg', 'letters/03 large-p003.jpg', '03 large-p003.jpg', 'cas/40/405c2bc703aa9aada53bbe07f53a8608a7cc013cbb2f7c0e81653448612ef4bf', 187406, 'image/jpeg', '405c2bc703aa9aada53bbe07f53a8608a7cc013cbb2f7c0e81653448612ef4bf', 'bafkreicalqv4oa5ktkw2ko56a72tvbqiu7gacpf3f56a5alfgregclxux4', '03 large.tif', '["TiffConverter"]', '{}', NULL, 0, NULL, NULL, 4, 1, 0);
INSERT INTO public.files VALUES (3, 26, 5, 2, NULL, true, 'jpeg', 'letters/04 grey.jpg', 'letters/04 grey.jpg', '04 grey.jpg', 'cas/7f/7f8ebe26f8a781d8fd95501a2188a2e9576ef3bbf8a40688de8e41a1f2570548', 516, 'image/jpeg', '7f8ebe26f8a781d8fd95501a2188a2e9576ef3bbf8a40688de8e41a1f2570548', 'bafkreid7r27cn6fhqhmp3fkqdiqyrixjk5xpho7yuqdirxuoigq7evyfja', '04 grey.tif', '["TiffConverter"]', '{}', NULL, 0, NULL, NULL, 5, 1, 0);
INSERT INTO public.files VALUES (3, 27, 6, 2, NULL, true, 'jpeg', 'letters/05 white.jpg', 'letters/05 white.jpg', '05 white.jpg', 'cas/c5/c5582646ec53bcc7cf0f1dfff4b10c45b71c7424bff9050a06d268737a5fd066', 20697, 'image/jpeg', 'c5582646ec53bcc7cf0f1dfff4b10c45b71c7424bff9050a06d268737a5fd066', 'bafkreigflaten3ctxtd46dy5772lcdcfw4ohijf77ecqubwsnbzxux6qmy', '05 white.tif', '["TiffConverter"]', '{}', NULL, 0, NULL, NULL, 6, 1, 0);
INSERT INTO public.files VALUES (3, 28, 7, 2, NULL, true, 'jpeg', 'letters/06 more.jpg', 'letters/06 more.jpg', '06 more.jpg', 'cas/07/07778704570e330e134860bda7cf5adedad1928caeef38229a66e577236dfecd', 14148, 'image/jpeg', '07778704570e330e134860bda7cf5adedad1928caeef38229a66e577236dfecd', 'bafkreiaho6dqivyogmhbgsdaxwt46ww63lizfdfo544cfgtg4v3sg3p6zu', '06 more.tif', '["TiffConverter"]', '{}', NULL, 0, NULL, NULL, 7, 1, 0);
INSERT INTO public.files VALUES (3, 29, 8, 2, NULL, true, 'jpeg', 'letters/07 more.jpg', 'letters/07 more.jpg', '07 more.jpg', 'cas/07/07778704570e330e134860bda7cf5adedad1928caeef38229a66e577236dfecd', 14148, 'image/jpeg', '07778704570e330e134860bda7cf5adedad1928caeef38229a66e577236dfecd', 'bafkreiaho6dqivyogmhbgsdaxwt46ww63lizfdfo544cfgtg4v3sg3p6zu', '07 more.tif', '["TiffConverter"]', '{}', NULL, 0, NULL, NULL, 8, 1, 0);
INSERT INTO public.files VALUES (3, 30, 9, 2, NULL, true, 'jpeg', 'letters/08 more.jpg', 'letters/08 more.jpg', '08 more.jpg', 'cas/07/07778704570e330e134860bda7cf5adedad1928caeef38229a66e577236dfecd', 14148, 'image/jpeg', '07778704570e330e134860bda7cf5adedad1928caeef38229a66e577236dfecd', 'bafkreiaho6dqivyogmhbgsdaxwt46ww63lizfdfo544cfgtg4v3sg3p6zu', '08 more.tif', '["TiffConverter"]', '{}', NULL, 0, NULL, NULL, 9, 1, 0);
INSERT INTO public.files VALUES (3, 31, 10, 2, NULL, true, 'jpeg', 'letters/09 more.jpg', 'letters/09 more.jpg', '09 more.jpg', 'cas/07/07778704570e330e134860bda7cf5adedad1928caeef38229a66e577236dfecd', 14148, 'image/jpeg', '07778704570e330e134860bda7cf5adedad1928caeef38229a66e577236dfecd', 'bafkreiaho6dqivyogmhbgsdaxwt46ww63lizfdfo544cfgtg4v3sg3p6zu', '09 more.tif', '["TiffConverter"]', '{}', NULL, 0, NULL, NULL, 10, 1, 0);
INSERT INTO public.files VALUES (3, 32, 11, 2, NULL, true, 'jpeg', 'letters/10 more.jpg', 'letters/10 more.jpg', '10 more.jpg', 'cas/07/07778704570e330e134860bda7cf5adedad1928caeef38229a66e577236dfecd', 14148, 'image/jpeg', '07778704570e330e134860bda7cf5adedad1928caeef38229a66e577236dfecd', 'bafkreiaho6dqivyogmhbgsdaxwt46ww63lizfdfo544cfgtg4v3sg3p6zu', '10 more.tif', '["TiffConverter"]', '{}', NULL, 0, NULL, NULL, 11, 1, 0);
INSERT INTO public.files VALUES (3, 1, 1, 0, NULL, true, 'input', 'broken/corrupt.tif', 'broken/corrupt.tif', 'corrupt.tif', 'cas/d8/d8eab0f4e791732becf2be1f895a7925dfd4da1dfdc8bdb42bea7976744abcbb', 262, 'image/tiff', 'd8eab0f4e791732becf2be1f895a7925dfd4da1dfdc8bdb42bea7976744abcbb', NULL, NULL, '[]', '{}', 'failed', 1, 'corrupt', 'the picture is damaged (tiff2vips: samples out of range). Send the file again from its source.', NULL, 1, 0);
INSERT INTO public.files VALUES (3, 2, 2, 0, NULL, true, 'input', 'letters/01 fax.tif', 'letters/01 fax.tif', '01 fax.tif', 'cas/76/763aaa228ba345fa7a1d541cadc6fa4b23cd726e37b540b6e4a972b4747c152f', 926, 'image/tiff', '763aaa228ba345fa7a1d541cadc6fa4b23cd726e37b540b6e4a972b4747c152f', NULL, NULL, '["TiffConverter:source"]', '{}', 'done', 1, NULL, NULL, NULL, 1, 0);
INSERT INTO public.files VALUES (3, 3, 3, 0, NULL, true, 'input', 'letters/02 colours.tiff', 'letters/02 colours.tiff', '02 colours.tiff', 'cas/e6/e6ea0b435d075d8c1381db743a9be2603a9419afccbb23cc0a4fd42c29169d51', 816, 'image/tiff', 'e6ea0b435d075d8c1381db743a9be2603a9419afccbb23cc0a4fd42c29169d51', NULL, NULL, '["TiffConverter:source"]', '{}', 'done', 1, NULL, NULL, NULL, 1, 0);
INSERT INTO public.files VALUES (3, 4, 4, 0, NULL, true, 'input', 'letters/03 large.tif', 'letters/03 large.tif', '03 large.tif', 'cas/61/6144e85767fa00b58fb6c584d2c0e0afcc22843721010a5a1ea2402b1d258fd9', 3275, 'image/tiff', '6144e85767fa00b58fb6c584d2c0e0afcc22843721010a5a1ea2402b1d258fd9', NULL, NULL, '["TiffConverter:source"]', '{}', 'done', 1, NULL, NULL, NULL, 1, 0);
INSERT INTO public.files VALUES (3, 5, 5, 0, NULL, true, 'input', 'letters/04 grey.tif', 'letters/04 grey.tif', '04 grey.tif', 'cas/b4/b4c1ef25fad27950f6116303d0afcaa304e42854ee1f172cdda3a00b2702488c', 8302, 'image/tiff', 'b4c1ef25fad27950f6116303d0afcaa304e42854ee1f172cdda3a00b2702488c', NULL, NULL, '["TiffConverter:source"]', '{}', 'done', 1, NULL, NULL, NULL, 1, 0);
INSERT INTO public.files VALUES (3, 6, 6, 0, NULL, true, 'input', 'letters/05 white.tif', 'letters/05 white.tif', '05 white.tif', 'cas/9b/9b303ec8e0dc83e9099af6a8c0d837772caad953d72995ad34e2f842fb66e83f', 3289, 'image/tiff', '9b303ec8e0dc83e9099af6a8c0d837772caad953d72995ad34e2f842fb66e83f', NULL, NULL, '["TiffConverter:source"]', '{}', 'done', 1, NULL, NULL, NULL, 1, 0);
INSERT INTO public.files VALUES (3, 7, 7, 0, NULL, true, 'input', 'letters/06 more.tif', 'letters/06 more.tif', '06 more.tif', 'cas/71/711af281e7abcce6a48524f075d56209bd65fa98864df4dc35339ae7efcbe2db', 927, 'image/tiff', '711af281e7abcce6a48524f075d56209bd65fa98864df4dc35339ae7efcbe2db', NULL, NULL, '["TiffConverter:source"]', '{}', 'done', 1, NULL, NULL, NULL, 1, 0);
INSERT INTO public.files VALUES (3, 8, 8, 0, NULL, true, 'input', 'letters/07 more.tif', 'letters/07 more.tif', '07 more.tif', 'cas/dd/dd1f40957cc66b5a3f5348b216db0b6dbeed1d1997a391a9f6df9313dec1b4dc', 927, 'image/tiff', 'dd1f40957cc66b5a3f5348b216db0b6dbeed1d1997a391a9f6df9313dec1b4dc', NULL, NULL, '["TiffConverter:source"]', '{}', 'done', 1, NULL, NULL, NULL, 1, 0);
INSERT INTO public.files VALUES (3, 9, 9, 0, NULL, true, 'input', 'letters/08 more.tif', 'letters/08 more.tif', '08 more.tif', 'cas/2a/2a3d6a60c0bbcd3e2de25c016e5849899ea629b8e1a65c8254a6c305c4a349b6', 927, 'image/tiff', '2a3d6a60c0bbcd3e2de25c016e5849899ea629b8e1a65c8254a6c305c4a349b6', NULL, NULL, '["TiffConverter:source"]', '{}', 'done', 1, NULL, NULL, NULL, 1, 0);
INSERT INTO public.files VALUES (3, 10, 10, 0, NULL, true, 'input', 'letters/09 more.tif', 'letters/09 more.tif', '09 more.tif', 'cas/d5/d5f27c353768a74878130d7f720107fbf9d943a84104ebf5d37c424e03bcebc9', 927, 'image/tiff', 'd5f27c353768a74878130d7f720107fbf9d943a84104ebf5d37c424e03bcebc9', NULL, NULL, '["TiffConverter:source"]', '{}', 'done', 1, NULL, NULL, NULL, 1, 0);
INSERT INTO public.files VALUES (3, 11, 11, 0, NULL, true, 'input', 'letters/10 more.tif', 'letters/10 more.tif', '10 more.tif', 'cas/ce/ceb40828fb5d57b1cd8334bbd8961d840a4ce528ebc81bae16996a917e9d5889', 927, 'image/tiff', 'ceb40828fb5d57b1cd8334bbd8961d840a4ce528ebc81bae16996a917e9d5889', NULL, NULL, '["TiffConverter:source"]', '{}', 'done', 1, NULL, NULL, NULL, 1, 0);


--
-- Data for Name: happenings; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.happenings VALUES ('arke-preprocess-jobs', 29916095, 'sent', 15055, 1);
INSERT INTO public.happenings VALUES ('arke-preprocess-jobs', 29916095, 'delivered', 15055, 1);
INSERT INTO public.happenings VALUES ('arke-preprocess-jobs', 29916095, 'acknowledged', 15055, 1);
INSERT INTO public.happenings VALUES ('arke-preprocess-jobs', 29916095, 'sent', 15198, 1);
INSERT INTO public.happenings VALUES ('arke-preprocess-jobs', 29916095, 'delivered', 15300, 1);
INSERT INTO public.happenings VALUES ('arke-preprocess-jobs', 29916095, 'buried', 15300, 1);
INSERT INTO public.happenings VALUES ('arke-preprocess-jobs', 29916095, 'sent', 15490, 1);
INSERT INTO public.happenings VALUES ('arke-preprocess-jobs', 29916095, 'delivered', 15490, 1);
INSERT INTO public.happenings VALUES ('arke-preprocess-jobs', 29916095, 'acknowledged', 15490, 1);
INSERT INTO public.happenings VALUES ('arke-preprocess-jobs', 29916095, 'sent', 15537, 1);


--
-- Data for Name: hooks; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.hooks OVERRIDING SYSTEM VALUE VALUES (1, 'hook_01M7P4Q5M71W8V69GR88X6Y9DH', NULL, 'http://127.0.0.1:9/in', 'whsec_iKULWuapQ+G2keiCC34EnSO1cEki5kihzUB1m1qM7fQ=', '{}', 1794965739.1440191, NULL, '');


--
-- Data for Name: members; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: messages; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.messages VALUES (1, 'arke-preprocess-jobs', 'start-01M7P4PZMHDEJN9ETM6QD8BM80', '\x', 'acknowledged', 1794965738.0940652, NULL, 1, 1794965733.0819893, 1794965733.110371, '{}', 3, '', '', NULL);
INSERT INTO public.messages VALUES (2, 'arke-preprocess-jobs', 'start-01M7P4Q2HMZG6298XQ01ZMQB5M', '\x7b2262617463685f6964223a2230314d3750345132484d5a4736323938585130315a4d5142354d222c226d616e69666573745f72325f6b6579223a2273746167696e672f30314d3750345132484d5a4736323938585130315a4d5142354d2f5f6d616e69666573742e6a736f6e222c2272325f707265666978223a2273746167696e672f30314d3750345132484d5a4736323938585130315a4d5142354d2f222c2275706c6f61646572223a22616461222c22726f6f745f70617468223a222f222c22706172656e745f7069223a223030303030303030303030303030303030303030303030303030222c22746f74616c5f66696c6573223a312c22746f74616c5f6279746573223a3435342c2275706c6f616465645f6174223a22323032362d31312d31385430313a33353a33352e3938385a222c2266696e616c697a65645f6174223a22323032362d31312d31385430313a33353a33362e3231365a222c226d65746164617461223a7b7d7d', 'dead', 1794965742.2235355, NULL, 1, 1794965736.2254634, 1794965737.2373142, '{"{\"delivery\": 1, \"at\": 1794965737.2373142, \"ending\": \"buried\", \"error_class\": \"missing\", \"error\": \"There is no blob ''staging/01M7P4Q2HMZG6298XQ01ZMQB5M/_manifest.json''.\", \"worker\": \"\"}"}', 3, '', 'missing', 1);
INSERT INTO public.messages VALUES (3, 'arke-preprocess-jobs', 'start-01M7P4Q7S27T5PZXDJ6CW3TJ9Z', '\x', 'acknowledged', 1794965746.4138184, NULL, 1, 1794965741.4112601, 1794965741.4188957, '{}', 3, '', '', NULL);
INSERT INTO public.messages VALUES (4, 'arke-preprocess-jobs', 'start-01M7P4QA2KVJBKTKE6WDRS6693', '\x7b2262617463685f6964223a2230314d3750345141324b564a424b544b45365744525336363933222c226d616e69666573745f72325f6b6579223a2273746167696e672f30314d3750345141324b564a424b544b453657445253363639332f5f6d616e69666573742e6a736f6e222c2272325f707265666978223a2273746167696e672f30314d3750345141324b564a424b544b453657445253363639332f222c2275706c6f61646572223a22616461222c22726f6f745f70617468223a222f222c22706172656e745f7069223a223030303030303030303030303030303030303030303030303030222c22746f74616c5f66696c6573223a312c22746f74616c5f6279746573223a3435362c2275706c6f616465645f6174223a22323032362d31312d31385430313a33353a34332e3639395a222c2266696e616c697a65645f6174223a22323032362d31312d31385430313a33353a34332e3735355a222c226d65746164617461223a7b7d7d', 'waiting', 1794965743.7601776, NULL, 0, 1794965743.7601776, NULL, '{}', 3, '', '', NULL);


--
-- Data for Name: migrations; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.migrations VALUES ('ledger', 1, 'ledger');
INSERT INTO public.migrations VALUES ('ledger', 2, 'engine');
INSERT INTO public.migrations VALUES ('ledger', 3, 'reception');
INSERT INTO public.migrations VALUES ('ledger', 4, 'access');
INSERT INTO public.migrations VALUES ('queues', 1, 'queues');
INSERT INTO public.migrations VALUES ('queues', 2, 'work');


--
-- Data for Name: outbox; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: ranks; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: rounds; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.rounds VALUES (1, 1, 1, 'PDF_SPLIT', 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
INSERT INTO public.rounds VALUES (1, 1, 2, 'TIFF_CONVERSION', 1, 2, 1, 1, 0, -2, 0.1383966620001047, 1190, 14148, 0, 0, 0);
INSERT INTO public.rounds VALUES (1, 1, 3, 'IMAGE_PROCESSING', 3, 2, 1, 1, 0, -2, 0.7324437899997065, 14148, 2401, 0, 0, 0);
INSERT INTO public.rounds VALUES (3, 1, 1, 'PDF_SPLIT', 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
INSERT INTO public.rounds VALUES (3, 1, 2, 'TIFF_CONVERSION', 1, 11, 10, 1, 0, -11, 0.47265187899984085, 21505, 669574, 0, 0, 0);
INSERT INTO public.rounds VALUES (3, 1, 3, 'IMAGE_PROCESSING', 12, 20, 2, 0, 0, -2, 0.08870333599998048, 17759, 11245, 0, 0, 0);


--
-- Data for Name: step_cache; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.step_cache VALUES ('ecbb045af39beac050612c082dbfdf7c3400fa2805ddf2cf9ea8b53d35418439', '\x82a870726f64756374739186a4726f6c65a46a706567a36b6579d9476361732f30372f30373737383730343537306533333065313334383630626461376366356164656461643139323863616565663338323239613636653537373233366466656364a473697a65cd3744ac636f6e74656e745f74797065aa696d6167652f6a706567a6646967657374d94030373737383730343537306533333065313334383630626461376366356164656461643139323863616565663338323239613636653537373233366466656364a5666163747385a47061676501a5706167657301a57769647468cd024ea668656967687458a3636964d93b6261666b72656961686f3664716976796f676d6862677364617877743436777736336c697a6664666f353434636667746734763373673370367a75a5666163747382a5706167657301ab6369645f70726f66696c65ae756e697866732d76312d32303235', 1794965733.4236672);
INSERT INTO public.step_cache VALUES ('08b1e2793eb09a7945088360dfbf16c835bb2184670f95ce0ca3b013db038cbc', '\x82a870726f64756374739286a4726f6c65a57468756d62a36b6579d9476361732f38642f38646232356463306238653835333039346565303165366636646264653166386661626437633732376337366634326361383765346263623732303939653539a473697a65cd088cac636f6e74656e745f74797065aa696d6167652f6a706567a6646967657374d94038646232356463306238653835333039346565303165366636646264653166386661626437633732376337366634326361383765346263623732303939653539a5666163747382a57769647468ccc8a66865696768741e86a4726f6c65a3726566a36b6579d9476361732f61332f61336664613665366466393433383631646266313237646238303936396132313034373566623862383537323532346336613464343664663539373261343265a473697a65ccd5ac636f6e74656e745f74797065b06170706c69636174696f6e2f6a736f6ea6646967657374d94061336664613665366466393433383631646266313237646238303936396132313034373566623862383537323532346336613464343664663539373261343265a5666163747381a3636964d93b6261666b72656966643777746f6e7834756862713578346a68336f616a6e67726261723237786334666f6a6a657932736e69337076733476656679a5666163747385a57769647468cd024ea668656967687458a861737365745f6964ba374331435a3451453730383059584435355646584b564e353137a3636964d93b6261666b72656961686f3664716976796f676d6862677364617877743436777736336c697a6664666f353434636667746734763373673370367a75ac636f6e74656e745f74797065aa696d6167652f6a706567', 1794965733.5465965);
INSERT INTO public.step_cache VALUES ('935cf12b34bf70b250bfefd33bd329eb0d4a772f90cfa7efa23ec20a4ae6586c', '\x82a870726f64756374739186a4726f6c65a46a706567a36b6579d9476361732f30372f30373737383730343537306533333065313334383630626461376366356164656461643139323863616565663338323239613636653537373233366466656364a473697a65cd3744ac636f6e74656e745f74797065aa696d6167652f6a706567a6646967657374d94030373737383730343537306533333065313334383630626461376366356164656461643139323863616565663338323239613636653537373233366466656364a5666163747385a47061676501a5706167657301a57769647468cd024ea668656967687458a3636964d93b6261666b72656961686f3664716976796f676d6862677364617877743436777736336c697a6664666f353434636667746734763373673370367a75a5666163747382a5706167657301ab6369645f70726f66696c65ae756e697866732d76312d32303235', 1794965741.6847537);
INSERT INTO public.step_cache VALUES ('2c6fe00684bd0ec605906a60de9c3a72456d76b124ea224133dfc35efb04a88b', '\x82a870726f64756374739386a4726f6c65a46a706567a36b6579d9476361732f65622f65626665373964356164313765656362626239666664356133663236396665643934333838326365366361613464376530323366333561303936636666366536a473697a65cd026bac636f6e74656e745f74797065aa696d6167652f6a706567a6646967657374d94065626665373964356164313765656362626239666664356133663236396665643934333838326365366361613464376530323366333561303936636666366536a5666163747385a47061676501a5706167657303a577696474680aa66865696768740aa3636964d93b6261666b726569686c377a34356c6c697835336633786837356c6937736e68376e737134696674746d766a6778346172376777716a6e743777347986a4726f6c65a46a706567a36b6579d9476361732f39322f39323565613564623031636563373766666436343761356230343166303865343835366137353239366137323933336531613336313338616332346532313439a473697a65cd026cac636f6e74656e745f74797065aa696d6167652f6a706567a6646967657374d94039323565613564623031636563373766666436343761356230343166303865343835366137353239366137323933336531613336313338616332346532313439a5666163747385a47061676502a5706167657303a577696474680aa66865696768740aa3636964d93b6261666b72656965736c32733577616f6f79353737327a64326c6d636236636865717676686b6b6c6b6f6b6a7434677277636f666d657472626a6586a4726f6c65a46a706567a36b6579d9476361732f36302f36303134383730623532323435633563333965343735393962613131616665663839616635623339333439376264346639643834383034393332623262656439a473697a65cd0274ac636f6e74656e745f74797065aa696d6167652f6a706567a6646967657374d94036303134383730623532323435633563333965343735393962613131616665663839616635623339333439376264346639643834383034393332623262656439a5666163747385a47061676503a5706167657303a5776964746814a668656967687414a3636964d93b6261666b726569646163736471777572656c726f64747a647674673562646c377072677876776f6a757336367537686d6571626574666d76363365a5666163747382a5706167657303ab6369645f70726f66696c65ae756e697866732d76312d32303235', 1794965741.725);
INSERT INTO public.step_cache VALUES ('b8ce0efd0410576c42762721cf55158293ce210f8e59af09ed66413cdb1c7198', '\x82a870726f64756374739186a4726f6c65a46a706567a36b6579d9476361732f37662f37663865626532366638613738316438666439353530316132313838613265393537366566336262663861343036383864653865343161316632353730353438a473697a65cd0204ac636f6e74656e745f74797065aa696d6167652f6a706567a6646967657374d94037663865626532366638613738316438666439353530316132313838613265393537366566336262663861343036383864653865343161316632353730353438a5666163747385a47061676501a5706167657301a5776964746840a668656967687440a3636964d93b6261666b7265696437723237636e36666871686d7033666b71646971797269786a6b357870686f3779757164697278756f69677137657679666a61a5666163747382a5706167657301ab6369645f70726f66696c65ae756e697866732d76312d32303235', 1794965741.9308534);
INSERT INTO public.step_cache VALUES ('f78572e00bfc52d432a03ff8b1cbf0b2ecf30df12c7d81556d0c6a4eaf0d5736', '\x82a870726f64756374739386a4726f6c65a46a706567a36b6579d9476361732f33302f33306365396361633333633061646566323530333832373936363462356234613138336533346336356237366662303839656563303932386331623062626332a473697a65ce0002da25ac636f6e74656e745f74797065aa696d6167652f6a706567a6646967657374d94033306365396361633333633061646566323530333832373936363462356234613138336533346336356237366662303839656563303932386331623062626332a5666163747385a47061676501a5706167657303a57769647468cd0ceba6686569676874cd1245a3636964d93b6261666b72656962717a326f6b796d3661767878736b613463706674657777326b646137646a7273336f3335717268786d6265756d646d6633796986a4726f6c65a46a706567a36b6579d9476361732f65322f65323535366137313238663833373238666335386431646566356665616236636539353664313333333232313865393736393930303535306264633134343734a473697a65ce0002db93ac636f6e74656e745f74797065aa696d6167652f6a706567a6646967657374d94065323535366137313238663833373238666335386431646566356665616236636539353664313333333232313865393736393930303535306264633134343734a5666163747385a47061676502a5706167657303a57769647468cd0ceba6686569676874cd1245a3636964d93b6261666b72656968636b767668636b6879673475707977677233333237356b336d35666c6e636d7a736567686a6f326d716176696c33716b656f7186a4726f6c65a46a706567a36b6579d9476361732f34302f34303563326263373033616139616164613533626265303766353361383630386137636330313363626232663763306538313635333434383631326566346266a473697a65ce0002dc0eac636f6e74656e745f74797065aa696d6167652f6a706567a6646967657374d94034303563326263373033616139616164613533626265303766353361383630386137636330313363626232663763306538313635333434383631326566346266a5666163747385a47061676503a5706167657303a57769647468cd0ceba6686569676874cd1245a3636964d93b6261666b72656963616c7176346f61356b746b77326b6f3536613732747662716975376761637066336635366135616c6667726567636c78757834a5666163747382a5706167657303ab6369645f70726f66696c65ae756e697866732d76312d32303235', 1794965741.9308534);
INSERT INTO public.step_cache VALUES ('a073f271438a31032efb724b29c9013f996d353521a63f03fd418357c8db465f', '\x82a870726f64756374739186a4726f6c65a46a706567a36b6579d9476361732f63352f63353538323634366563353362636337636630663164666666346231306334356237316337343234626666393035306130366432363837333761356664303636a473697a65cd50d9ac636f6e74656e745f74797065aa696d6167652f6a706567a6646967657374d94063353538323634366563353362636337636630663164666666346231306334356237316337343234626666393035306130366432363837333761356664303636a5666163747385a47061676501a5706167657301a57769647468cc9da6686569676874cc97a3636964d93b6261666b72656967666c6174656e33637478746434366479353737326c6364636677346f68696a663737656371756277736e627a78757836716d79a5666163747382a5706167657301ab6369645f70726f66696c65ae756e697866732d76312d32303235', 1794965741.943208);
INSERT INTO public.step_cache VALUES ('98e09d6d74b5bc16a420f31236d73f8c39b88ec23d7862746ab00a15b49a66a8', '\x82a870726f64756374739186a4726f6c65a46a706567a36b6579d9476361732f30372f30373737383730343537306533333065313334383630626461376366356164656461643139323863616565663338323239613636653537373233366466656364a473697a65cd3744ac636f6e74656e745f74797065aa696d6167652f6a706567a6646967657374d94030373737383730343537306533333065313334383630626461376366356164656461643139323863616565663338323239613636653537373233366466656364a5666163747385a47061676501a5706167657301a57769647468cd024ea668656967687458a3636964d93b6261666b72656961686f3664716976796f676d6862677364617877743436777736336c697a6664666f353434636667746734763373673370367a75a5666163747382a5706167657301ab6369645f70726f66696c65ae756e697866732d76312d32303235', 1794965741.9719796);
INSERT INTO public.step_cache VALUES ('47963f996d9af60f569b76f8ab2eed4e0bd157d72bd5ad86c085d4da0c332554', '\x82a870726f64756374739186a4726f6c65a46a706567a36b6579d9476361732f30372f30373737383730343537306533333065313334383630626461376366356164656461643139323863616565663338323239613636653537373233366466656364a473697a65cd3744ac636f6e74656e745f74797065aa696d6167652f6a706567a6646967657374d94030373737383730343537306533333065313334383630626461376366356164656461643139323863616565663338323239613636653537373233366466656364a5666163747385a47061676501a5706167657301a57769647468cd024ea668656967687458a3636964d93b6261666b72656961686f3664716976796f676d6862677364617877743436777736336c697a6664666f353434636667746734763373673370367a75a5666163747382a5706167657301ab6369645f70726f66696c65ae756e697866732d76312d32303235', 1794965741.999405);
INSERT INTO public.step_cache VALUES ('80214f451083e1a5f8eab5d70f219c1576ef9be01868afe1719e5c1b5ebf558c', '\x82a870726f64756374739186a4726f6c65a46a706567a36b6579d9476361732f30372f30373737383730343537306533333065313334383630626461376366356164656461643139323863616565663338323239613636653537373233366466656364a473697a65cd3744ac636f6e74656e745f74797065aa696d6167652f6a706567a6646967657374d94030373737383730343537306533333065313334383630626461376366356164656461643139323863616565663338323239613636653537373233366466656364a5666163747385a47061676501a5706167657301a57769647468cd024ea668656967687458a3636964d93b6261666b72656961686f3664716976796f676d6862677364617877743436777736336c697a6664666f353434636667746734763373673370367a75a5666163747382a5706167657301ab6369645f70726f66696c65ae756e697866732d76312d32303235', 1794965741.999405);
INSERT INTO public.step_cache VALUES ('cff777e33c348c172ce56bf55310ed919e661d37572e83597c50636916d47278', '\x82a870726f64756374739186a4726f6c65a46a706567a36b6579d9476361732f30372f30373737383730343537306533333065313334383630626461376366356164656461643139323863616565663338323239613636653537373233366466656364a473697a65cd3744ac636f6e74656e745f74797065aa696d6167652f6a706567a6646967657374d94030373737383730343537306533333065313334383630626461376366356164656461643139323863616565663338323239613636653537373233366466656364a5666163747385a47061676501a5706167657301a57769647468cd024ea668656967687458a3636964d93b6261666b72656961686f3664716976796f676d6862677364617877743436777736336c697a6664666f353434636667746734763373673370367a75a5666163747382a5706167657301ab6369645f70726f66696c65ae756e697866732d76312d32303235', 1794965742.0073543);
INSERT INTO public.step_cache VALUES ('9c40bcab9b9cd418cb9b9d231d8aba67c7d7efbce26682f3d8430d00527662d6', '\x82a870726f64756374739186a4726f6c65a46a706567a36b6579d9476361732f30372f30373737383730343537306533333065313334383630626461376366356164656461643139323863616565663338323239613636653537373233366466656364a473697a65cd3744ac636f6e74656e745f74797065aa696d6167652f6a706567a6646967657374d94030373737383730343537306533333065313334383630626461376366356164656461643139323863616565663338323239613636653537373233366466656364a5666163747385a47061676501a5706167657301a57769647468cd024ea668656967687458a3636964d93b6261666b72656961686f3664716976796f676d6862677364617877743436777736336c697a6664666f353434636667746734763373673370367a75a5666163747382a5706167657301ab6369645f70726f66696c65ae756e697866732d76312d32303235', 1794965742.0111744);
INSERT INTO public.step_cache VALUES ('f41f812f9fd75f8a6edfef7a4be4b09a233a0362457e83cc74cd631c8c8273f1', '\x82a870726f64756374739186a4726f6c65a3726566a36b6579d9476361732f66352f66353865316538306364326666333436393666376638386233393330363339646362666331643031633239346563656133393539653039343630346334323437a473697a65ccd8ac636f6e74656e745f74797065b06170706c69636174696f6e2f6a736f6ea6646967657374d94066353865316538306364326666333436393666376638386233393330363339646362666331643031633239346563656133393539653039343630346334323437a5666163747381a3636964d93b6261666b72656968767279706962746a70366e646a6e353779726d3474617934357a70366232616f637374776f756f6b7a34636b67617463636934a5666163747385a57769647468ccc8a6686569676874ccc8a861737365745f6964ba3647463859563342465936375457435657425846455631524834a3636964d93b6261666b726569626a327569737136777a6161756b77677066797a7372756a6f7534667a63617665377a69677136666b3677706f71786f36366169ac636f6e74656e745f74797065aa696d6167652f6a706567', 1794965742.103654);
INSERT INTO public.step_cache VALUES ('4d893378b8bcb069d39f209f6497f84c78ac82759271701ba3140fffa5517b15', '\x82a870726f64756374739286a4726f6c65a57468756d62a36b6579d9476361732f61302f61303233653132353238363735343966613263653038306135343839303533393038356330343362313864643137396132313035376237383839356132323734a473697a65cd2a3fac636f6e74656e745f74797065aa696d6167652f6a706567a6646967657374d94061303233653132353238363735343966613263653038306135343839303533393038356330343362313864643137396132313035376237383839356132323734a5666163747382a57769647468cc96a6686569676874ccc886a4726f6c65a3726566a36b6579d9476361732f30352f30353731336666373735636138376462633230643736386634626233333361653762636365343235343332626665333436383834386134616563373632353563a473697a65ccd6ac636f6e74656e745f74797065b06170706c69636174696f6e2f6a736f6ea6646967657374d94030353731336666373735636138376462633230643736386634626233333361653762636365343235343332626665333436383834386134616563373632353563a5666163747381a3636964d93b6261666b72656961666f6537376f356f6b71376e3465646c7772356633676d356f7070676f696a6b646670376469326565726a666f793572666c71a5666163747385a57769647468cd01e0a6686569676874cd0280a861737365745f6964ba374e34434538373354444647524b5037473441365a42564e3337a3636964d93b6261666b726569656c7064796471697066703377627970766434667072333366717a756972696d72703774766b647974346a773472797076776c61ac636f6e74656e745f74797065a9696d6167652f706e67', 1794965742.147372);


--
-- Data for Name: strays; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: submissions; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.submissions VALUES (2, 'sess_01M7P4Q2HMZG6298XQ01ZMQB5N', 'ada', '/', '00000000000000000000000000', 1, 1, '{}', '{}', 'key_01M7P4PWR5W6J97JM2MTHRF24N', NULL, '', 1, 1, 454, 2, 1794965736.216446, 1794965736.216446, NULL);
INSERT INTO public.submissions VALUES (4, 'sess_01M7P4Q9XHSPNPW8SYE81517C8', 'ada', '/', '00000000000000000000000000', 3, 10830140, '{}', '{}', 'key_01M7P4PWR5W6J97JM2MTHRF24N', NULL, '', 3, 1, 455, 4, 1794965743.6034195, NULL, NULL);
INSERT INTO public.submissions VALUES (5, 'sess_01M7P4QA2KVJBKTKE6WDRS6694', 'ada', '/', '00000000000000000000000000', 1, 1, '{}', '{}', 'key_01M7P4PWR5W6J97JM2MTHRF24N', NULL, '', 1, 1, 456, 2, 1794965743.7552836, 1794965743.7552836, NULL);


--
-- Data for Name: tasks; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.tasks VALUES (1, 1, 2, 1, 'failed', 1, 1, 0, false, 1794965733.2840414, NULL, NULL, 'corrupt', 'the picture is damaged (tiff2vips: samples out of range). Send the file again from its source.', 1, NULL, 1, 'rejected', 'local-15060', 0.046822576000067784, '\x95cd010700000000');
INSERT INTO public.tasks VALUES (1, 2, 2, 2, 'done', 1, 0, 0, false, 1794965733.3287957, NULL, '\x82a870726f64756374739186a4726f6c65a46a706567a36b6579d9476361732f30372f30373737383730343537306533333065313334383630626461376366356164656461643139323863616565663338323239613636653537373233366466656364a473697a65cd3744ac636f6e74656e745f74797065aa696d6167652f6a706567a6646967657374d94030373737383730343537306533333065313334383630626461376366356164656461643139323863616565663338323239613636653537373233366466656364a5666163747385a47061676501a5706167657301a57769647468cd024ea668656967687458a3636964d93b6261666b72656961686f3664716976796f676d6862677364617877743436777736336c697a6664666f353434636667746734763373673370367a75a5666163747382a5706167657301ab6369645f70726f66696c65ae756e697866732d76312d32303235', NULL, NULL, 1, NULL, 1, 'done', 'local-15058', 0.09157408600003691, '\x95cd039fcd3744000000');
INSERT INTO public.tasks VALUES (1, 4, 3, 4, 'done', 1, 0, 0, false, 1794965733.4812753, NULL, '\x82a870726f64756374739286a4726f6c65a57468756d62a36b6579d9476361732f38642f38646232356463306238653835333039346565303165366636646264653166386661626437633732376337366634326361383765346263623732303939653539a473697a65cd088cac636f6e74656e745f74797065aa696d6167652f6a706567a6646967657374d94038646232356463306238653835333039346565303165366636646264653166386661626437633732376337366634326361383765346263623732303939653539a5666163747382a57769647468ccc8a66865696768741e86a4726f6c65a3726566a36b6579d9476361732f61332f61336664613665366466393433383631646266313237646238303936396132313034373566623862383537323532346336613464343664663539373261343265a473697a65ccd5ac636f6e74656e745f74797065b06170706c69636174696f6e2f6a736f6ea6646967657374d94061336664613665366466393433383631646266313237646238303936396132313034373566623862383537323532346336613464343664663539373261343265a5666163747381a3636964d93b6261666b72656966643777746f6e7834756862713578346a68336f616a6e67726261723237786334666f6a6a657932736e69337076733476656679a5666163747385a57769647468cd024ea668656967687458a861737365745f6964ba374331435a3451453730383059584435355646584b564e353137a3636964d93b6261666b72656961686f3664716976796f676d6862677364617877743436777736336c697a6664666f353434636667746734763373673370367a75ac636f6e74656e745f74797065aa696d6167652f6a706567', NULL, NULL, 1, NULL, 1, 'done', 'local-15058', 0.06056394100005491, '\x95cd3744cd0961000000');
INSERT INTO public.tasks VALUES (1, 3, 3, 3, 'failed', 3, 3, 0, false, 1794965734.0934322, NULL, NULL, 'timeout', 'the step image_variants gave no result within 0.15 s and was stopped', 1, NULL, 1, 'timed_out', 'local-15118', 0.19199902799982738, NULL);
INSERT INTO public.tasks VALUES (3, 1, 2, 1, 'failed', 1, 1, 0, false, 1794965741.5593874, NULL, NULL, 'corrupt', 'the picture is damaged (tiff2vips: samples out of range). Send the file again from its source.', 1, NULL, 3, 'rejected', 'local-15492', 0.0991306099999747, '\x95cd010600000000');
INSERT INTO public.tasks VALUES (3, 2, 2, 2, 'done', 1, 0, 0, false, 1794965741.6587243, NULL, '\x82a870726f64756374739186a4726f6c65a46a706567a36b6579d9476361732f30372f30373737383730343537306533333065313334383630626461376366356164656461643139323863616565663338323239613636653537373233366466656364a473697a65cd3744ac636f6e74656e745f74797065aa696d6167652f6a706567a6646967657374d94030373737383730343537306533333065313334383630626461376366356164656461643139323863616565663338323239613636653537373233366466656364a5666163747385a47061676501a5706167657301a57769647468cd024ea668656967687458a3636964d93b6261666b72656961686f3664716976796f676d6862677364617877743436777736336c697a6664666f353434636667746734763373673370367a75a5666163747382a5706167657301ab6369645f70726f66696c65ae756e697866732d76312d32303235', NULL, NULL, 1, NULL, 3, 'done', 'local-15492', 0.023837982999793894, '\x95cd039ecd3744000000');
INSERT INTO public.tasks VALUES (3, 3, 2, 3, 'done', 1, 0, 0, false, 1794965741.6835237, NULL, '\x82a870726f64756374739386a4726f6c65a46a706567a36b6579d9476361732f65622f65626665373964356164313765656362626239666664356133663236396665643934333838326365366361613464376530323366333561303936636666366536a473697a65cd026bac636f6e74656e745f74797065aa696d6167652f6a706567a6646967657374d94065626665373964356164313765656362626239666664356133663236396665643934333838326365366361613464376530323366333561303936636666366536a5666163747385a47061676501a5706167657303a577696474680aa66865696768740aa3636964d93b6261666b726569686c377a34356c6c697835336633786837356c6937736e68376e737134696674746d766a6778346172376777716a6e743777347986a4726f6c65a46a706567a36b6579d9476361732f39322f39323565613564623031636563373766666436343761356230343166303865343835366137353239366137323933336531613336313338616332346532313439a473697a65cd026cac636f6e74656e745f74797065aa696d6167652f6a706567a6646967657374d94039323565613564623031636563373766666436343761356230343166303865343835366137353239366137323933336531613336313338616332346532313439a5666163747385a47061676502a5706167657303a577696474680aa66865696768740aa3636964d93b6261666b72656965736c32733577616f6f79353737327a64326c6d636236636865717676686b6b6c6b6f6b6a7434677277636f666d657472626a6586a4726f6c65a46a706567a36b6579d9476361732f36302f36303134383730623532323435633563333965343735393962613131616665663839616635623339333439376264346639643834383034393332623262656439a473697a65cd0274ac636f6e74656e745f74797065aa696d6167652f6a706567a6646967657374d94036303134383730623532323435633563333965343735393962613131616665663839616635623339333439376264346639643834383034393332623262656439a5666163747385a47061676503a5706167657303a5776964746814a668656967687414a3636964d93b6261666b726569646163736471777572656c726f64747a647674673562646c377072677876776f6a757336367537686d6571626574666d76363365a5666163747382a5706167657303ab6369645f70726f66696c65ae756e697866732d76312d32303235', NULL, NULL, 1, NULL, 3, 'done', 'local-15492', 0.037247644000217406, '\x95cd0330cd074b000000');
INSERT INTO public.tasks VALUES (3, 4, 2, 4, 'done', 1, 0, 0, false, 1794965741.6955593, NULL, '\x82a870726f64756374739386a4726f6c65a46a706567a36b6579d9476361732f33302f33306365396361633333633061646566323530333832373936363462356234613138336533346336356237366662303839656563303932386331623062626332a473697a65ce0002da25ac636f6e74656e745f74797065aa696d6167652f6a706567a6646967657374d94033306365396361633333633061646566323530333832373936363462356234613138336533346336356237366662303839656563303932386331623062626332a5666163747385a47061676501a5706167657303a57769647468cd0ceba6686569676874cd1245a3636964d93b6261666b72656962717a326f6b796d3661767878736b613463706674657777326b646137646a7273336f3335717268786d6265756d646d6633796986a4726f6c65a46a706567a36b6579d9476361732f65322f65323535366137313238663833373238666335386431646566356665616236636539353664313333333232313865393736393930303535306264633134343734a473697a65ce0002db93ac636f6e74656e745f74797065aa696d6167652f6a706567a6646967657374d94065323535366137313238663833373238666335386431646566356665616236636539353664313333333232313865393736393930303535306264633134343734a5666163747385a47061676502a5706167657303a57769647468cd0ceba6686569676874cd1245a3636964d93b6261666b72656968636b767668636b6879673475707977677233333237356b336d35666c6e636d7a736567686a6f326d716176696c33716b656f7186a4726f6c65a46a706567a36b6579d9476361732f34302f34303563326263373033616139616164613533626265303766353361383630386137636330313363626232663763306538313635333434383631326566346266a473697a65ce0002dc0eac636f6e74656e745f74797065aa696d6167652f6a706567a6646967657374d94034303563326263373033616139616164613533626265303766353361383630386137636330313363626232663763306538313635333434383631326566346266a5666163747385a47061676503a5706167657303a57769647468cd0ceba6686569676874cd1245a3636964d93b6261666b72656963616c7176346f61356b746b77326b6f3536613732747662716975376761637066336635366135616c6667726567636c78757834a5666163747382a5706167657303ab6369645f70726f66696c65ae756e697866732d76312d32303235', NULL, NULL, 1, NULL, 3, 'done', 'local-15492', 0.22090942299973904, '\x95cd0ccbce000891c6000000');
INSERT INTO public.tasks VALUES (3, 5, 2, 5, 'done', 1, 0, 0, false, 1794965741.9081326, NULL, '\x82a870726f64756374739186a4726f6c65a46a706567a36b6579d9476361732f37662f37663865626532366638613738316438666439353530316132313838613265393537366566336262663861343036383864653865343161316632353730353438a473697a65cd0204ac636f6e74656e745f74797065aa696d6167652f6a706567a6646967657374d94037663865626532366638613738316438666439353530316132313838613265393537366566336262663861343036383864653865343161316632353730353438a5666163747385a47061676501a5706167657301a5776964746840a668656967687440a3636964d93b6261666b7265696437723237636e36666871686d7033666b71646971797269786a6b357870686f3779757164697278756f69677137657679666a61a5666163747382a5706167657301ab6369645f70726f66696c65ae756e697866732d76312d32303235', NULL, NULL, 1, NULL, 3, 'done', 'local-15492', 0.009814638000079867, '\x95cd206ecd0204000000');
INSERT INTO public.tasks VALUES (3, 6, 2, 6, 'done', 1, 0, 0, false, 1794965741.9185355, NULL, '\x82a870726f64756374739186a4726f6c65a46a706567a36b6579d9476361732f63352f63353538323634366563353362636337636630663164666666346231306334356237316337343234626666393035306130366432363837333761356664303636a473697a65cd50d9ac636f6e74656e745f74797065aa696d6167652f6a706567a6646967657374d94063353538323634366563353362636337636630663164666666346231306334356237316337343234626666393035306130366432363837333761356664303636a5666163747385a47061676501a5706167657301a57769647468cc9da6686569676874cc97a3636964d93b6261666b72656967666c6174656e33637478746434366479353737326c6364636677346f68696a663737656371756277736e627a78757836716d79a5666163747382a5706167657301ab6369645f70726f66696c65ae756e697866732d76312d32303235', NULL, NULL, 1, NULL, 3, 'done', 'local-15492', 0.019748913000057655, '\x95cd0cd9cd50d9000000');
INSERT INTO public.tasks VALUES (3, 7, 2, 7, 'done', 1, 0, 0, false, 1794965741.9426196, NULL, '\x82a870726f64756374739186a4726f6c65a46a706567a36b6579d9476361732f30372f30373737383730343537306533333065313334383630626461376366356164656461643139323863616565663338323239613636653537373233366466656364a473697a65cd3744ac636f6e74656e745f74797065aa696d6167652f6a706567a6646967657374d94030373737383730343537306533333065313334383630626461376366356164656461643139323863616565663338323239613636653537373233366466656364a5666163747385a47061676501a5706167657301a57769647468cd024ea668656967687458a3636964d93b6261666b72656961686f3664716976796f676d6862677364617877743436777736336c697a6664666f353434636667746734763373673370367a75a5666163747382a5706167657301ab6369645f70726f66696c65ae756e697866732d76312d32303235', NULL, NULL, 1, NULL, 3, 'done', 'local-15492', 0.0051021379999838246, '\x95cd039fcd3744000000');
INSERT INTO public.tasks VALUES (3, 8, 2, 8, 'done', 1, 0, 0, false, 1794965741.9487002, NULL, '\x82a870726f64756374739186a4726f6c65a46a706567a36b6579d9476361732f30372f30373737383730343537306533333065313334383630626461376366356164656461643139323863616565663338323239613636653537373233366466656364a473697a65cd3744ac636f6e74656e745f74797065aa696d6167652f6a706567a6646967657374d94030373737383730343537306533333065313334383630626461376366356164656461643139323863616565663338323239613636653537373233366466656364a5666163747385a47061676501a5706167657301a57769647468cd024ea668656967687458a3636964d93b6261666b72656961686f3664716976796f676d6862677364617877743436777736336c697a6664666f353434636667746734763373673370367a75a5666163747382a5706167657301ab6369645f70726f66696c65ae756e697866732d76312d32303235', NULL, NULL, 1, NULL, 3, 'done', 'local-15492', 0.02348067599996284, '\x95cd039fcd3744000000');
INSERT INTO public.tasks VALUES (3, 10, 2, 10, 'done', 1, 0, 0, false, 1794965741.979336, NULL, '\x82a870726f64756374739186a4726f6c65a46a706567a36b6579d9476361732f30372f30373737383730343537306533333065313334383630626461376366356164656461643139323863616565663338323239613636653537373233366466656364a473697a65cd3744ac636f6e74656e745f74797065aa696d6167652f6a706567a6646967657374d94030373737383730343537306533333065313334383630626461376366356164656461643139323863616565663338323239613636653537373233366466656364a5666163747385a47061676501a5706167657301a57769647468cd024ea668656967687458a3636964d93b6261666b72656961686f3664716976796f676d6862677364617877743436777736336c697a6664666f353434636667746734763373673370367a75a5666163747382a5706167657301ab6369645f70726f66696c65ae756e697866732d76312d32303235', NULL, NULL, 1, NULL, 3, 'done', 'local-15492', 0.019672670000090875, '\x95cd039fcd3744000000');
INSERT INTO public.tasks VALUES (3, 9, 2, 9, 'done', 1, 0, 0, false, 1794965741.9720638, NULL, '\x82a870726f64756374739186a4726f6c65a46a706567a36b6579d9476361732f30372f30373737383730343537306533333065313334383630626461376366356164656461643139323863616565663338323239613636653537373233366466656364a473697a65cd3744ac636f6e74656e745f74797065aa696d6167652f6a706567a6646967657374d94030373737383730343537306533333065313334383630626461376366356164656461643139323863616565663338323239613636653537373233366466656364a5666163747385a47061676501a5706167657301a57769647468cd024ea668656967687458a3636964d93b6261666b72656961686f3664716976796f676d6862677364617877743436777736336c697a6664666f353434636667746734763373673370367a75a5666163747382a5706167657301ab6369645f70726f66696c65ae756e697866732d76312d32303235', NULL, NULL, 1, NULL, 3, 'done', 'local-15492', 0.006293687999914255, '\x95cd039fcd3744000000');
INSERT INTO public.tasks VALUES (3, 11, 2, 11, 'done', 1, 0, 0, false, 1794965742.0005631, NULL, '\x82a870726f64756374739186a4726f6c65a46a706567a36b6579d9476361732f30372f30373737383730343537306533333065313334383630626461376366356164656461643139323863616565663338323239613636653537373233366466656364a473697a65cd3744ac636f6e74656e745f74797065aa696d6167652f6a706567a6646967657374d94030373737383730343537306533333065313334383630626461376366356164656461643139323863616565663338323239613636653537373233366466656364a5666163747385a47061676501a5706167657301a57769647468cd024ea668656967687458a3636964d93b6261666b72656961686f3664716976796f676d6862677364617877743436777736336c697a6664666f353434636667746734763373673370367a75a5666163747382a5706167657301ab6369645f70726f66696c65ae756e697866732d76312d32303235', NULL, NULL, 1, NULL, 3, 'done', 'local-15492', 0.007413496000026498, '\x95cd039fcd3744000000');
INSERT INTO public.tasks VALUES (3, 18, 3, 19, 'ready', 0, 0, 0, false, NULL, NULL, NULL, NULL, NULL, 1, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.tasks VALUES (3, 19, 3, 20, 'ready', 0, 0, 0, false, NULL, NULL, NULL, NULL, NULL, 1, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.tasks VALUES (3, 20, 3, 21, 'ready', 0, 0, 0, false, NULL, NULL, NULL, NULL, NULL, 1, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.tasks VALUES (3, 21, 3, 22, 'ready', 0, 0, 0, false, NULL, NULL, NULL, NULL, NULL, 1, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.tasks VALUES (3, 22, 3, 23, 'ready', 0, 0, 0, false, NULL, NULL, NULL, NULL, NULL, 1, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.tasks VALUES (3, 23, 3, 24, 'ready', 0, 0, 0, false, NULL, NULL, NULL, NULL, NULL, 1, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.tasks VALUES (3, 24, 3, 25, 'ready', 0, 0, 0, false, NULL, NULL, NULL, NULL, NULL, 1, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.tasks VALUES (3, 25, 3, 26, 'ready', 0, 0, 0, false, NULL, NULL, NULL, NULL, NULL, 1, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.tasks VALUES (3, 26, 3, 27, 'ready', 0, 0, 0, false, NULL, NULL, NULL, NULL, NULL, 1, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.tasks VALUES (3, 27, 3, 28, 'ready', 0, 0, 0, false, NULL, NULL, NULL, NULL, NULL, 1, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.tasks VALUES (3, 28, 3, 29, 'ready', 0, 0, 0, false, NULL, NULL, NULL, NULL, NULL, 1, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.tasks VALUES (3, 29, 3, 30, 'ready', 0, 0, 0, false, NULL, NULL, NULL, NULL, NULL, 1, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.tasks VALUES (3, 30, 3, 31, 'ready', 0, 0, 0, false, NULL, NULL, NULL, NULL, NULL, 1, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.tasks VALUES (3, 31, 3, 32, 'ready', 0, 0, 0, false, NULL, NULL, NULL, NULL, NULL, 1, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.tasks VALUES (3, 14, 3, 14, 'running', 1, 0, 0, false, 1794965742.07022, NULL, NULL, NULL, NULL, 1, NULL, 3, NULL, NULL, NULL, NULL);
INSERT INTO public.tasks VALUES (3, 15, 3, 15, 'running', 1, 0, 0, false, 1794965742.07022, NULL, NULL, NULL, NULL, 1, NULL, 3, NULL, NULL, NULL, NULL);
INSERT INTO public.tasks VALUES (3, 16, 3, 16, 'running', 1, 0, 0, false, 1794965742.07022, NULL, NULL, NULL, NULL, 1, NULL, 3, NULL, NULL, NULL, NULL);
INSERT INTO public.tasks VALUES (3, 17, 3, 17, 'running', 1, 0, 0, false, 1794965742.07022, NULL, NULL, NULL, NULL, 1, NULL, 3, NULL, NULL, NULL, NULL);
INSERT INTO public.tasks VALUES (3, 12, 3, 12, 'done', 1, 0, 0, false, 1794965742.073891, NULL, '\x82a870726f64756374739186a4726f6c65a3726566a36b6579d9476361732f66352f66353865316538306364326666333436393666376638386233393330363339646362666331643031633239346563656133393539653039343630346334323437a473697a65ccd8ac636f6e74656e745f74797065b06170706c69636174696f6e2f6a736f6ea6646967657374d94066353865316538306364326666333436393666376638386233393330363339646362666331643031633239346563656133393539653039343630346334323437a5666163747381a3636964d93b6261666b72656968767279706962746a70366e646a6e353779726d3474617934357a70366232616f637374776f756f6b7a34636b67617463636934a5666163747385a57769647468ccc8a6686569676874ccc8a861737365745f6964ba3647463859563342465936375457435657425846455631524834a3636964d93b6261666b726569626a327569737136777a6161756b77677066797a7372756a6f7534667a63617665377a69677136666b3677706f71786f36366169ac636f6e74656e745f74797065aa696d6167652f6a706567', NULL, NULL, 1, NULL, 3, 'done', 'local-15492', 0.02806557000030807, '\x95cd2a91ccd8000000');
INSERT INTO public.tasks VALUES (3, 13, 3, 13, 'done', 1, 0, 0, false, 1794965742.08063, NULL, '\x82a870726f64756374739286a4726f6c65a57468756d62a36b6579d9476361732f61302f61303233653132353238363735343966613263653038306135343839303533393038356330343362313864643137396132313035376237383839356132323734a473697a65cd2a3fac636f6e74656e745f74797065aa696d6167652f6a706567a6646967657374d94061303233653132353238363735343966613263653038306135343839303533393038356330343362313864643137396132313035376237383839356132323734a5666163747382a57769647468cc96a6686569676874ccc886a4726f6c65a3726566a36b6579d9476361732f30352f30353731336666373735636138376462633230643736386634626233333361653762636365343235343332626665333436383834386134616563373632353563a473697a65ccd6ac636f6e74656e745f74797065b06170706c69636174696f6e2f6a736f6ea6646967657374d94030353731336666373735636138376462633230643736386634626233333361653762636365343235343332626665333436383834386134616563373632353563a5666163747381a3636964d93b6261666b72656961666f6537376f356f6b71376e3465646c7772356633676d356f7070676f696a6b646670376469326565726a666f793572666c71a5666163747385a57769647468cd01e0a6686569676874cd0280a861737365745f6964ba374e34434538373354444647524b5037473441365a42564e3337a3636964d93b6261666b726569656c7064796471697066703377627970766434667072333366717a756972696d72703774766b647974346a773472797076776c61ac636f6e74656e745f74797065a9696d6167652f706e67', NULL, NULL, 1, NULL, 3, 'done', 'local-15492', 0.06063776599967241, '\x95cd1acecd2b15000000');


--
-- Data for Name: uploads; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.uploads VALUES (1, 'damaged.tif', 'taken', 263, '263-1794965725769353352-2156418', 'cas/63/634ea042bfb13dfc5564378d5682b1429a06350841cf35e2bf338a33d97b38fd', '634ea042bfb13dfc5564378d5682b1429a06350841cf35e2bf338a33d97b38fd', 'image/tiff', '', '', NULL, '{}', '', NULL, NULL, '[]', '');
INSERT INTO public.uploads VALUES (1, 'good.tif', 'taken', 927, '927-1794965725769535873-2156434', 'cas/3c/3c23aa2360b25094a96cd246dff841e47e828d50413b0e7d278d23e9cf8b7302', '3c23aa2360b25094a96cd246dff841e47e828d50413b0e7d278d23e9cf8b7302', 'image/tiff', '', '', NULL, '{}', '', NULL, NULL, '[]', '');
INSERT INTO public.uploads VALUES (1, 'huge.png', 'taken', 251866, '251866-1794965727152405450-2155053', 'cas/48/48dd71341abaf6777307a16fee05d1f777337c85ef2336e3d70cc4fe2548e44f', '48dd71341abaf6777307a16fee05d1f777337c85ef2336e3d70cc4fe2548e44f', 'image/png', '', '', NULL, '{}', '', NULL, NULL, '[]', '');
INSERT INTO public.uploads VALUES (2, '/box/buried.png', 'taken', 454, '01M7P4Q2J5J6VVQKWCBEEQPAAB', 'staging/01M7P4Q2HMZG6298XQ01ZMQB5M/box/buried.png', 'de47334555d8225eb1a9f4e30aeb6da10105f9a73445361ed84ddc78230071cf', 'image/png', '', '', NULL, '{"ocr": true, "describe": true, "pinax": true}', '', 1794965736.1987035, NULL, '[]', '/box');
INSERT INTO public.uploads VALUES (3, 'broken/corrupt.tif', 'taken', 262, '262-1794965725403991852-2154659', 'cas/d8/d8eab0f4e791732becf2be1f895a7925dfd4da1dfdc8bdb42bea7976744abcbb', 'd8eab0f4e791732becf2be1f895a7925dfd4da1dfdc8bdb42bea7976744abcbb', 'image/tiff', '', '', NULL, '{}', '', NULL, NULL, '[]', '');
INSERT INTO public.uploads VALUES (3, 'broken/empty.png', 'failed', 0, '', '', '', '', 'empty_file', 'the file is empty (0 bytes); check how it was copied or scanned', NULL, '{}', '', NULL, NULL, '[]', '');
INSERT INTO public.uploads VALUES (3, 'letters/01 fax.tif', 'taken', 926, '926-1794965725404257517-2154732', 'cas/76/763aaa228ba345fa7a1d541cadc6fa4b23cd726e37b540b6e4a972b4747c152f', '763aaa228ba345fa7a1d541cadc6fa4b23cd726e37b540b6e4a972b4747c152f', 'image/tiff', '', '', NULL, '{}', '', NULL, NULL, '[]', '');
INSERT INTO public.uploads VALUES (3, 'letters/02 colours.tiff', 'taken', 816, '816-1794965725404373329-2154767', 'cas/e6/e6ea0b435d075d8c1381db743a9be2603a9419afccbb23cc0a4fd42c29169d51', 'e6ea0b435d075d8c1381db743a9be2603a9419afccbb23cc0a4fd42c29169d51', 'image/tiff', '', '', NULL, '{}', '', NULL, NULL, '[]', '');
INSERT INTO public.uploads VALUES (3, 'letters/03 large.tif', 'taken', 3275, '3275-1794965725404491314-2154778', 'cas/61/6144e85767fa00b58fb6c584d2c0e0afcc22843721010a5a1ea2402b1d258fd9', '6144e85767fa00b58fb6c584d2c0e0afcc22843721010a5a1ea2402b1d258fd9', 'image/tiff', '', '', NULL, '{}', '', NULL, NULL, '[]', '');
INSERT INTO public.uploads VALUES (3, 'letters/04 grey.tif', 'taken', 8302, '8302-1794965725404676730-2154788', 'cas/b4/b4c1ef25fad27950f6116303d0afcaa304e42854ee1f172cdda3a00b2702488c', 'b4c1ef25fad27950f6116303d0afcaa304e42854ee1f172cdda3a00b2702488c', 'image/tiff', '', '', NULL, '{}', '', NULL, NULL, '[]', '');
INSERT INTO public.uploads VALUES (3, 'letters/05 white.tif', 'taken', 3289, '3289-1794965725404819251-2154962', 'cas/9b/9b303ec8e0dc83e9099af6a8c0d837772caad953d72995ad34e2f842fb66e83f', '9b303ec8e0dc83e9099af6a8c0d837772caad953d72995ad34e2f842fb66e83f', 'image/tiff', '', '', NULL, '{}', '', NULL, NULL, '[]', '');
INSERT INTO public.uploads VALUES (3, 'letters/06 more.tif', 'taken', 927, '927-1794965725405887678-2156242', 'cas/71/711af281e7abcce6a48524f075d56209bd65fa98864df4dc35339ae7efcbe2db', '711af281e7abcce6a48524f075d56209bd65fa98864df4dc35339ae7efcbe2db', 'image/tiff', '', '', NULL, '{}', '', NULL, NULL, '[]', '');
INSERT INTO public.uploads VALUES (3, 'letters/07 more.tif', 'taken', 927, '927-1794965725406040245-2156258', 'cas/dd/dd1f40957cc66b5a3f5348b216db0b6dbeed1d1997a391a9f6df9313dec1b4dc', 'dd1f40957cc66b5a3f5348b216db0b6dbeed1d1997a391a9f6df9313dec1b4dc', 'image/tiff', '', '', NULL, '{}', '', NULL, NULL, '[]', '');
INSERT INTO public.uploads VALUES (3, 'letters/08 more.tif', 'taken', 927, '927-1794965725406199191-2156274', 'cas/2a/2a3d6a60c0bbcd3e2de25c016e5849899ea629b8e1a65c8254a6c305c4a349b6', '2a3d6a60c0bbcd3e2de25c016e5849899ea629b8e1a65c8254a6c305c4a349b6', 'image/tiff', '', '', NULL, '{}', '', NULL, NULL, '[]', '');
INSERT INTO public.uploads VALUES (3, 'letters/09 more.tif', 'taken', 927, '927-1794965725406351517-2156290', 'cas/d5/d5f27c353768a74878130d7f720107fbf9d943a84104ebf5d37c424e03bcebc9', 'd5f27c353768a74878130d7f720107fbf9d943a84104ebf5d37c424e03bcebc9', 'image/tiff', '', '', NULL, '{}', '', NULL, NULL, '[]', '');
INSERT INTO public.uploads VALUES (3, 'letters/10 more.tif', 'taken', 927, '927-1794965725406543392-2156306', 'cas/ce/ceb40828fb5d57b1cd8334bbd8961d840a4ce528ebc81bae16996a917e9d5889', 'ceb40828fb5d57b1cd8334bbd8961d840a4ce528ebc81bae16996a917e9d5889', 'image/tiff', '', '', NULL, '{}', '', NULL, NULL, '[]', '');
INSERT INTO public.uploads VALUES (3, 'photos/10 exif.jpg', 'taken', 10897, '10897-1794965725405233296-2156194', 'cas/29/29d511287ad90028ab19e5c6651a25d4e17220549fca0d0f155eb3dd0bbbde02', '29d511287ad90028ab19e5c6651a25d4e17220549fca0d0f155eb3dd0bbbde02', 'image/jpeg', '', '', NULL, '{}', '', NULL, NULL, '[]', '');
INSERT INTO public.uploads VALUES (3, 'photos/11 page.png', 'taken', 6862, '6862-1794965725405456818-2156210', 'cas/8b/8b78f03821e57eec1c3ea3e15f1decb0cd1114322ffceaa1e27c4db91c3eb658', '8b78f03821e57eec1c3ea3e15f1decb0cd1114322ffceaa1e27c4db91c3eb658', 'image/png', '', '', NULL, '{}', '', NULL, NULL, '[]', '');
INSERT INTO public.uploads VALUES (3, 'photos/12 wide.png', 'taken', 62442, '62442-1794965725765986852-2156322', 'cas/8f/8f8538922403c8b020ce6db15eda7cf2d47834eb160c77edacfaf742f33445b6', '8f8538922403c8b020ce6db15eda7cf2d47834eb160c77edacfaf742f33445b6', 'image/png', '', '', NULL, '{}', '', NULL, NULL, '[]', '');
INSERT INTO public.uploads VALUES (3, 'photos/13 small 305.png', 'taken', 459, '459-1794965725767249377-2156338', 'cas/ac/acb04b7e3d7b777ec5f9129e4b333ff44a2bd1d17a40e1b557821b8b788c8f16', 'acb04b7e3d7b777ec5f9129e4b333ff44a2bd1d17a40e1b557821b8b788c8f16', 'image/png', '', '', NULL, '{}', '', NULL, NULL, '[]', '');
INSERT INTO public.uploads VALUES (3, 'photos/13 small 306.png', 'taken', 462, '462-1794965725768191236-2156354', 'cas/f1/f11fde4d224ccda361242ff26a90335949da41ff00d4900bae2dc64cf4490ca0', 'f11fde4d224ccda361242ff26a90335949da41ff00d4900bae2dc64cf4490ca0', 'image/png', '', '', NULL, '{}', '', NULL, NULL, '[]', '');
INSERT INTO public.uploads VALUES (3, 'photos/13 small 307.png', 'taken', 463, '463-1794965725769019175-2156370', 'cas/26/264f293c602a5ef1e44d0e1777b891192d63144338a63795b7d8f4ee444b2951', '264f293c602a5ef1e44d0e1777b891192d63144338a63795b7d8f4ee444b2951', 'image/png', '', '', NULL, '{}', '', NULL, NULL, '[]', '');
INSERT INTO public.uploads VALUES (3, 'photos/14 book.pdf', 'taken', 6605, '6605-1794965725405684987-2156226', 'cas/50/5087c2afe763d145537d652bb3bc6c321ace3a267b2679ae2c178add3ba7f1d9', '5087c2afe763d145537d652bb3bc6c321ace3a267b2679ae2c178add3ba7f1d9', 'application/pdf', '', '', NULL, '{}', '', NULL, NULL, '[]', '');
INSERT INTO public.uploads VALUES (4, '/box/first.png', 'taken', 455, '01M7P4Q9XZ8AV5PZN6FNP5TM17', 'staging/01M7P4Q9XHSPNPW8SYE81517C7/box/first.png', '1cd6301b56f41dcafa4758d862a74b1dd90ec15fb318d2beb66aaa222c3a1390', 'image/png', '', '', NULL, '{"ocr": true, "describe": true, "pinax": true}', '', 1794965743.5901294, NULL, '[]', '/box');
INSERT INTO public.uploads VALUES (4, '/box/second.png', 'awaited', 459, '01M7P4Q9ZBVDDD5PQ9GKZ43PH8', 'staging/01M7P4Q9XHSPNPW8SYE81517C7/box/second.png', '', 'image/png', '', '', NULL, '{"ocr": true, "describe": true, "pinax": true}', '', NULL, NULL, '[]', '/box');
INSERT INTO public.uploads VALUES (4, '/box/large.tif', 'awaited', 10830140, '01M7P4Q9ZKK5CJ6FD4EMKX7HFP', 'staging/01M7P4Q9XHSPNPW8SYE81517C7/box/large.tif', '', 'image/tiff', '', '', NULL, '{"ocr": true, "describe": true, "pinax": true}', '02ed65681d4f1b7ccbb5bdf27a6ebe13', NULL, NULL, '[]', '/box');
INSERT INTO public.uploads VALUES (5, '/box/waiting.png', 'taken', 456, '01M7P4QA2VR5WB4ZMMK95DMD7G', 'staging/01M7P4QA2KVJBKTKE6WDRS6693/box/waiting.png', 'd36d87659e1fea41dd84496b06fc91989211cff194bc80deb6d407277e2ab8f2', 'image/png', '', '', NULL, '{"ocr": true, "describe": true, "pinax": true}', '', 1794965743.743292, NULL, '[]', '/box');


--
-- Name: api_keys_no_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.api_keys_no_seq', 2, true);


--
-- Name: batches_no_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.batches_no_seq', 5, true);


--
-- Name: crew_no_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.crew_no_seq', 3, true);


--
-- Name: deliveries_no_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.deliveries_no_seq', 10, true);


--
-- Name: events_no_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.events_no_seq', 24, true);


--
-- Name: hooks_no_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.hooks_no_seq', 1, true);


--
-- Name: messages_buried_no; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.messages_buried_no', 1, true);


--
-- Name: messages_no; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.messages_no', 4, true);


--
-- Name: outbox_no_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.outbox_no_seq', 4, true);


--
-- Name: strays_no_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.strays_no_seq', 1, false);


--
-- Name: alarms alarms_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.alarms
    ADD CONSTRAINT alarms_pkey PRIMARY KEY (batch_no);


--
-- Name: api_keys api_keys_hash_key; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.api_keys
    ADD CONSTRAINT api_keys_hash_key UNIQUE (hash);


--
-- Name: api_keys api_keys_id_key; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.api_keys
    ADD CONSTRAINT api_keys_id_key UNIQUE (id);


--
-- Name: api_keys api_keys_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.api_keys
    ADD CONSTRAINT api_keys_pkey PRIMARY KEY (no);


--
-- Name: attempts attempts_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.attempts
    ADD CONSTRAINT attempts_pkey PRIMARY KEY (batch_no, task_no, attempt);


--
-- Name: batches batches_id_key; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.batches
    ADD CONSTRAINT batches_id_key UNIQUE (id);


--
-- Name: batches batches_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.batches
    ADD CONSTRAINT batches_pkey PRIMARY KEY (no);


--
-- Name: crew crew_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.crew
    ADD CONSTRAINT crew_pkey PRIMARY KEY (no);


--
-- Name: deliveries deliveries_id_key; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.deliveries
    ADD CONSTRAINT deliveries_id_key UNIQUE (id);


--
-- Name: deliveries deliveries_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.deliveries
    ADD CONSTRAINT deliveries_pkey PRIMARY KEY (no);


--
-- Name: events events_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.events
    ADD CONSTRAINT events_pkey PRIMARY KEY (no);


--
-- Name: failures failures_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.failures
    ADD CONSTRAINT failures_pkey PRIMARY KEY (batch_no, error_class);


--
-- Name: files files_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.files
    ADD CONSTRAINT files_pkey PRIMARY KEY (batch_no, file_no);


--
-- Name: happenings happenings_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.happenings
    ADD CONSTRAINT happenings_pkey PRIMARY KEY (queue, minute, what, backend);


--
-- Name: hooks hooks_id_key; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.hooks
    ADD CONSTRAINT hooks_id_key UNIQUE (id);


--
-- Name: hooks hooks_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.hooks
    ADD CONSTRAINT hooks_pkey PRIMARY KEY (no);


--
-- Name: members members_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.members
    ADD CONSTRAINT members_pkey PRIMARY KEY (batch_no, unit_no, file_no);


--
-- Name: messages messages_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.messages
    ADD CONSTRAINT messages_pkey PRIMARY KEY (no);


--
-- Name: messages messages_queue_id_key; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.messages
    ADD CONSTRAINT messages_queue_id_key UNIQUE (queue, id);


--
-- Name: migrations migrations_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.migrations
    ADD CONSTRAINT migrations_pkey PRIMARY KEY (room, number);


--
-- Name: outbox outbox_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.outbox
    ADD CONSTRAINT outbox_pkey PRIMARY KEY (no);


--
-- Name: ranks ranks_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.ranks
    ADD CONSTRAINT ranks_pkey PRIMARY KEY (batch_no, round, phase, rank);


--
-- Name: rounds rounds_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.rounds
    ADD CONSTRAINT rounds_pkey PRIMARY KEY (batch_no, round, phase);


--
-- Name: step_cache step_cache_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.step_cache
    ADD CONSTRAINT step_cache_pkey PRIMARY KEY (key);


--
-- Name: strays strays_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.strays
    ADD CONSTRAINT strays_pkey PRIMARY KEY (no);


--
-- Name: submissions submissions_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.submissions
    ADD CONSTRAINT submissions_pkey PRIMARY KEY (batch_no);


--
-- Name: tasks tasks_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.tasks
    ADD CONSTRAINT tasks_pkey PRIMARY KEY (batch_no, task_no);


--
-- Name: uploads uploads_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.uploads
    ADD CONSTRAINT uploads_pkey PRIMARY KEY (batch_no, path);


--
-- Name: batches_active; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX batches_active ON public.batches USING btree (no) WHERE (stage <> ALL (ARRAY['done'::text, 'error'::text, 'cancelled'::text]));


--
-- Name: batches_owned; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX batches_owned ON public.batches USING btree (owner) WHERE ((owner IS NOT NULL) AND (stage <> ALL (ARRAY['done'::text, 'error'::text, 'cancelled'::text])));


--
-- Name: batches_run_key; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX batches_run_key ON public.batches USING btree (run_key, no);


--
-- Name: batches_staged; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX batches_staged ON public.batches USING btree (completed_at, no) WHERE (staged AND (completed_at IS NOT NULL));


--
-- Name: batches_working; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX batches_working ON public.batches USING btree (tier, served_at) WHERE ((stage = 'working'::text) AND (hold IS NULL));


--
-- Name: deliveries_batch; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX deliveries_batch ON public.deliveries USING btree (batch_no, no);


--
-- Name: deliveries_due; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX deliveries_due ON public.deliveries USING btree (next_at, no) WHERE (state = 'waiting'::text);


--
-- Name: deliveries_hook; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX deliveries_hook ON public.deliveries USING btree (hook_no, no);


--
-- Name: events_batch; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX events_batch ON public.events USING btree (batch_no, no);


--
-- Name: files_again; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX files_again ON public.files USING btree (batch_no, round, file_no) WHERE (round > 1);


--
-- Name: files_failed; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX files_failed ON public.files USING btree (batch_no, path) WHERE (outcome = 'failed'::text);


--
-- Name: files_folded; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX files_folded ON public.files USING btree (batch_no, folded);


--
-- Name: files_made; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX files_made ON public.files USING btree (batch_no, root_no) WHERE (born > 0);


--
-- Name: hooks_batch; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX hooks_batch ON public.hooks USING btree (batch_no, disabled_at);


--
-- Name: members_file; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX members_file ON public.members USING btree (batch_no, file_no);


--
-- Name: messages_dead; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX messages_dead ON public.messages USING btree (queue, buried_no) WHERE (state = 'dead'::text);


--
-- Name: messages_due; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX messages_due ON public.messages USING btree (queue, priority, due_at, no) WHERE (state = 'waiting'::text);


--
-- Name: messages_ended; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX messages_ended ON public.messages USING btree (ended_at) WHERE (state = 'acknowledged'::text);


--
-- Name: strays_batch; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX strays_batch ON public.strays USING btree (batch_no, no);


--
-- Name: submissions_idle; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX submissions_idle ON public.submissions USING btree (active_at, batch_no) WHERE ((finalized_at IS NULL) AND (swept_at IS NULL));


--
-- Name: submissions_key; Type: INDEX; Schema: public; Owner: -
--

CREATE UNIQUE INDEX submissions_key ON public.submissions USING btree (owner, idempotency_key) WHERE (idempotency_key IS NOT NULL);


--
-- Name: tasks_failed; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX tasks_failed ON public.tasks USING btree (batch_no, task_no) WHERE (state = 'failed'::text);


--
-- Name: tasks_of_file; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX tasks_of_file ON public.tasks USING btree (batch_no, file_no);


--
-- Name: tasks_ranked; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX tasks_ranked ON public.tasks USING btree (batch_no, rank, task_no) WHERE ((state = 'ready'::text) AND (rank IS NOT NULL));


--
-- Name: tasks_running; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX tasks_running ON public.tasks USING btree (member, batch_no, task_no) WHERE (state = 'running'::text);


--
-- Name: tasks_waiting; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX tasks_waiting ON public.tasks USING btree (batch_no, due_at, task_no) WHERE (state = 'waiting'::text);


--
-- Name: uploads_awaited; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX uploads_awaited ON public.uploads USING btree (batch_no, path) WHERE (state = 'awaited'::text);


--
-- Name: uploads_failed; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX uploads_failed ON public.uploads USING btree (batch_no, path) WHERE (state = 'failed'::text);


--
-- Name: uploads_folders; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX uploads_folders ON public.uploads USING btree (batch_no, folder, path) WHERE (folder <> ''::text);


--
-- PostgreSQL database dump complete
--

\unrestrict lBt8P3p7mo102wguv2aNqcQ7bOUDLV9uBqmTmf4TBDoSxPXiQfg8BoyOPFIgVAx

