/** The closing hint of a test run: kinds of tests that were left out, and how to run them. */

/** One entry per npm script, with the kinds it runs: `test:<kind>` where package.json has it, else `test`, which runs the kinds that need nothing installed. */
export function notRunHint(kinds: readonly string[], scripts: Readonly<Record<string, string>>): string {
  const byScript = Map.groupBy(kinds, (kind) => (`test:${kind}` in scripts ? `test:${kind}` : 'test'));
  return [...byScript].map(([script, its]) => `${its.join(', ')} (npm ${script === 'test' ? '' : 'run '}${script})`).join('; ');
}
