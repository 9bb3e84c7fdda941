/**
 * Keys of the gateway: signed tokens that say what they are for, so that no table of keys exists and nothing about a key is kept at rest. A key that was changed,
 * made with another secret, or is too old fails here, before anything is looked up. Pure.
 */
import { createHmac, timingSafeEqual } from 'node:crypto';
import { z } from 'zod';
import { fail, ok, type Result } from '../../base/result.ts';
import { entityId } from '../../events/fields.ts';

/** What a key is for. `partition` and `offset` are where in the log the state behind it begins; folding from there on gives all of it. */
export type KeyClaims = {
  readonly project: string;
  readonly run: string;
  readonly partition: number;
  readonly offset: number;
  /** Seconds since 1970. */
  readonly expires: number;
} & (
  | { readonly kind: 'rollout'; readonly rollout: string; readonly trace: string }
  /** Sessions of a whole run; `grant` is the id of the event that holds its settings. */
  | { readonly kind: 'run'; readonly grant: string }
);

/** Programs that check their key look for `sk-`. */
const PREFIX = 'sk-td-';
const VERSION = 1;
export const MIN_SECRET_LENGTH = 32;

const place = z.int().nonnegative();
const payload = z.union([
  z.tuple([z.literal(VERSION), z.literal('r'), entityId, entityId, place, place, place, entityId, entityId]),
  z.tuple([z.literal(VERSION), z.literal('u'), entityId, entityId, place, place, place, z.string().min(1).max(64)]),
]);

export function mintKey(secret: Uint8Array, claims: KeyClaims): string {
  const { project, run, partition, offset, expires } = claims;
  const head = [VERSION, claims.kind === 'rollout' ? 'r' : 'u', project, run, partition, offset, expires] as const;
  const tail = claims.kind === 'rollout' ? [claims.rollout, claims.trace] : [claims.grant];
  const body = Buffer.from(JSON.stringify([...head, ...tail])).toString('base64url');
  return `${PREFIX}${body}.${sign(secret, body).toString('base64url')}`;
}

/** The claims of a key; the error (`unauthorized`) says in what way it is no good, and never what a good one would be. */
export function readKey(secret: Uint8Array, key: string, nowMicros: number): Result<KeyClaims> {
  const dot = key.lastIndexOf('.');
  if (!key.startsWith(PREFIX) || dot < PREFIX.length) return refuse('this is no key of Tapedeck');
  const body = key.slice(PREFIX.length, dot);
  const given = Buffer.from(key.slice(dot + 1), 'base64url');
  const expected = sign(secret, body);
  if (given.length !== expected.length || !timingSafeEqual(given, expected)) return refuse('this key was not made here, or was changed');
  const parsed = payload.safeParse(JSON.parse(Buffer.from(body, 'base64url').toString()));
  if (!parsed.success) return refuse('this key was made by another version');
  const claims = claimsOf(parsed.data);
  if (claims.expires * 1e6 <= nowMicros) return refuse('this key has expired');
  return ok(claims);
}

function claimsOf(data: z.infer<typeof payload>): KeyClaims {
  const [, , project, run, partition, offset, expires] = data;
  const common = { project, run, partition, offset, expires };
  return data[1] === 'r' ? { ...common, kind: 'rollout', rollout: data[7], trace: data[8] } : { ...common, kind: 'run', grant: data[7] };
}

function refuse(what: string): Result<never> {
  return fail('unauthorized', `${what}; ask for one with POST /v1/rollouts or POST /v1/runs/<run>/keys`);
}

function sign(secret: Uint8Array, body: string): Buffer {
  return createHmac('sha256', secret).update(PREFIX).update(body).digest();
}

type Headers = Readonly<Record<string, string | string[] | undefined>>;

/** The key a request carries: in the path for programs that only take a base URL, as a bearer token, or as `x-api-key`. */
export function keyOfRequest(headers: Headers, fromPath: string | undefined): Result<string> {
  if (fromPath !== undefined) return ok(fromPath);
  const bearer = /^Bearer\s+(\S+)\s*$/i.exec(one(headers['authorization']) ?? '')?.[1];
  const key = bearer ?? one(headers['x-api-key']);
  return key === undefined || key === ''
    ? fail('unauthorized', 'no key; send one as Authorization: Bearer, as x-api-key, or in the path (/k/<key>/v1)')
    : ok(key);
}

function one(header: string | string[] | undefined): string | undefined {
  return typeof header === 'string' ? header : undefined;
}
