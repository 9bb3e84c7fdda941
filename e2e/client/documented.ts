/** Holds what a server answers against its own OpenAPI document. */
import assert from 'node:assert/strict';
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';

const JSON_LINES = 'application/x-ndjson';

type Responses = Readonly<Record<string, { readonly content?: Readonly<Record<string, { readonly schema?: object }>> }>>;
export type Operation = {
  /** Absent where one route has several methods. */
  readonly operationId?: string;
  readonly summary?: string;
  readonly tags?: readonly string[];
  readonly parameters?: readonly object[];
  readonly responses: Responses;
};
export type Document = { readonly openapi: string; readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>> };

/** A `fetch` that fails where a JSON answer, or a line of JSON lines, is not what the document says. `seen` are the operations it judged. */
export function documentedFetch(document: Document): { readonly fetch: (request: Request) => Promise<Response>; readonly seen: ReadonlySet<string> } {
  const ajv = new Ajv2020({ strict: false, allErrors: true });
  const validators = new Map<object, ValidateFunction>();
  const seen = new Set<string>();
  return {
    seen,
    fetch: async (request) => {
      const response = await fetch(request);
      const type = response.headers.get('content-type')?.split(';')[0] ?? '';
      if (type !== 'application/json' && type !== JSON_LINES) return response;
      const operation = operationOf(document, request);
      const schema = (operation.responses[String(response.status)] ?? operation.responses['default'])?.content?.[type]?.schema;
      assert.ok(schema !== undefined, `${operation.operationId} says nothing of ${response.status} ${type}`);
      if ((schema as { format?: string }).format === 'binary') return response; // rows as the query names them
      const validate = validators.get(schema) ?? ajv.compile(schema);
      validators.set(schema, validate);
      const text = await response.clone().text();
      for (const part of type === JSON_LINES ? text.trimEnd().split('\n') : [text]) {
        assert.ok(validate(JSON.parse(part)), `${operation.operationId}: ${ajv.errorsText(validate.errors)}\n${part.slice(0, 2_000)}`);
      }
      if (operation.operationId !== undefined) seen.add(operation.operationId);
      return response;
    },
  };
} // prettier-ignore

/** The most literal path wins, as in the router. */
function operationOf({ paths }: Document, request: Request): Operation {
  const { pathname } = new URL(request.url);
  const fits = Object.entries(paths).filter(([path, methods]) => methods[request.method.toLowerCase()] !== undefined && patternOf(path).test(pathname));
  const [best] = fits.toSorted(([a], [b]) => a.split('{').length - b.split('{').length);
  assert.ok(best !== undefined, `the document has no ${request.method} ${pathname}`);
  return best[1][request.method.toLowerCase()] as Operation;
} // prettier-ignore

function patternOf(path: string): RegExp {
  return new RegExp(`^${path.replaceAll(/\{\w+\}/g, '[^/]+')}$`);
}
