/** What the OpenAPI document says of every route beyond its own schema: an id of its own, and the one shape of all failures. Touches the document only. */
import type { SwaggerTransform } from '@fastify/swagger';
import { inlineDefinitions } from './inline-definitions.ts';
import { ERROR } from './openapi.ts';

/** Routes of the gateway fail in the shape of the dialect they speak. */
const OTHER_FAILURES = 'gateway';

type Described = {
  readonly operationId?: string;
  readonly tags?: readonly string[];
  readonly response?: Readonly<Record<string, unknown>>;
};

export const describeRoute: SwaggerTransform = ({ schema, url, route }) => {
  const known = schema as Described | undefined;
  // a route of several methods would give them one id
  const ownId = Array.isArray(route.method) ? undefined : idOf(route.method, url);
  const { operationId = ownId, tags = [], response = {} } = known ?? {};
  const isOurs = url.startsWith('/v1/') && !tags.includes(OTHER_FAILURES);
  const hasSuccess = Object.keys(response).some((status) => status.startsWith('2'));
  const described = {
    ...schema,
    ...(operationId === undefined ? {} : { operationId }),
    response: {
      ...(hasSuccess ? {} : { 200: { description: 'The answer' } }),
      ...response,
      ...(isOurs
        ? {
            default: { description: 'A failure; the codes are listed in docs/http.md', content: { 'application/json': { schema: ERROR } } },
          }
        : {}),
    },
  };
  return { schema: inlineDefinitions(described) as typeof described, url };
};

/** `GET /v1/runs/:run/rollouts` is get_runs_run_rollouts: unique because method and path are. */
function idOf(method: string, url: string): string {
  const words = url.replace(/^\/v1\//, '').split(/[^A-Za-z0-9]+/).filter((word) => word !== ''); // prettier-ignore
  return [method.toLowerCase(), ...words].join('_');
}
