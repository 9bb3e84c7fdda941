/** JSON Schemas with definitions of their own, as Zod writes recursive ones, cannot lie inside an OpenAPI document: their references start at its root. */

type Definitions = Readonly<Record<string, unknown>>;

/** The same schema with every `$ref` into `$defs` replaced by what it names; a definition inside itself is any value. */
export function inlineDefinitions(schema: unknown, known: Definitions = {}, within: ReadonlySet<string> = new Set()): unknown {
  if (Array.isArray(schema)) return schema.map((each) => inlineDefinitions(each, known, within));
  if (typeof schema !== 'object' || schema === null) return schema;
  const { $defs, ...rest } = schema as { readonly $defs?: Definitions };
  const definitions = $defs === undefined ? known : { ...known, ...$defs };
  const name = nameOf((rest as { readonly $ref?: unknown }).$ref);
  if (name === undefined || definitions[name] === undefined) {
    return Object.fromEntries(Object.entries(rest).map(([key, value]) => [key, inlineDefinitions(value, definitions, within)]));
  }
  return within.has(name) ? {} : inlineDefinitions(definitions[name], definitions, new Set([...within, name]));
}

function nameOf(reference: unknown): string | undefined {
  return typeof reference === 'string' ? /^#\/\$defs\/(.+)$/.exec(reference)?.[1] : undefined;
}
