/** Holds the project that a request names against that of its key, and fills it in where the request names none. */
import type { FastifyRequest } from 'fastify';
import { TapedeckError } from '../../../base/errors.ts';
import { DEFAULT_PROJECT } from '../../../events/envelope.ts';
import { ALL_PROJECTS, projectIncludes } from '../../../store/keys/key-record.ts';
import type { Access } from '../../../store/keys/request-access.ts';
import type { RouteRule } from './route-rules.ts';

/** Runs when the body has been read. Throws `forbidden`. */
export function checkProject(request: FastifyRequest, rule: RouteRule, access: Access): void {
  if (rule.project === 'query') request.query = filled(request.query, access);
  if (rule.project === 'body') request.body = filled(request.body, access);
}

/** What can be judged before the body is read. Throws `forbidden`. */
export function checkReach(rule: RouteRule, access: Access): void {
  if (rule.project === 'server' && access.project !== ALL_PROJECTS) {
    throw new TapedeckError(
      'forbidden',
      "this concerns all projects of the server, and the key is for one: tapedeck keys create --project '*' makes one for all",
    );
  }
  if (rule.project === 'default' && !projectIncludes(access.project, DEFAULT_PROJECT)) throw foreign(DEFAULT_PROJECT, access);
}

/** Something other than an object is left to the route, which refuses it. */
function filled(value: unknown, access: Access): unknown {
  if (value !== undefined && value !== null && (typeof value !== 'object' || Array.isArray(value) || ArrayBuffer.isView(value)))
    return value;
  const given = (value as { project?: unknown } | null | undefined)?.project;
  if (given === undefined) {
    if (access.project === ALL_PROJECTS) return value;
    return Object.assign(value ?? {}, { project: access.project });
  }
  if (typeof given !== 'string') throw new TapedeckError('bad_request', 'project: must be one text', { details: { field: 'project' } });
  if (!projectIncludes(access.project, given)) throw foreign(given, access);
  return value;
}

function foreign(project: string, access: Access): TapedeckError {
  return new TapedeckError(
    'forbidden',
    `the key is for the project "${access.project}", not for "${project.slice(0, 64)}": leave project out, or use a key of that project`,
    { details: { field: 'project' } },
  );
}
