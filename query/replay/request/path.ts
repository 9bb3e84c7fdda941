/** Places inside a request: `messages[2].content`. Pure. */
import { TapedeckError } from '../../../base/errors.ts';

export type Path = readonly (string | number)[];
/** A pattern's step: a key, an index, `*` for any one step, `**` for any number of steps. */
export type Step = string | number | typeof ANY | typeof ANY_DEPTH;

export const ANY = Symbol('*');
export const ANY_DEPTH = Symbol('**');

const PLAIN_KEY = /^[A-Za-z_$][\w$-]*$/;

export function pathText(path: Path): string {
  let text = '';
  for (const step of path) {
    if (typeof step === 'number') text += `[${step}]`;
    else if (PLAIN_KEY.test(step)) text += text === '' ? step : `.${step}`;
    else text += `[${JSON.stringify(step)}]`;
  }
  return text === '' ? '(the whole)' : text;
}

const STEP = /^(?:\.?(\*\*|\*|[A-Za-z_$][\w$-]*)|\[(\d{1,9})\]|\[(\*)\]|\[("(?:[^"\\]|\\.)*")\])/;

/** Reads `messages[*].content`, `**.created_at`, `tools[0]["odd key"]`. Throws `usage`. */
export function readPath(text: string): Step[] {
  const steps: Step[] = [];
  let rest = text;
  while (rest !== '') {
    const found = STEP.exec(rest);
    if (found === null || (steps.length > 0 && found[1] !== undefined && !rest.startsWith('.'))) {
      throw new TapedeckError(
        'usage',
        `"${text}" is no path at "${rest.slice(0, 20)}": write it like messages[0].content, messages[*].content or **.date`,
      );
    }
    const [whole, name, index, star, quoted] = found;
    if (name === '**') steps.push(ANY_DEPTH);
    else if (name === '*' || star !== undefined) steps.push(ANY);
    else steps.push(index !== undefined ? Number(index) : quoted !== undefined ? (JSON.parse(quoted) as string) : (name as string));
    rest = rest.slice(whole.length);
  }
  if (steps.length === 0) throw new TapedeckError('usage', 'a path must not be empty');
  return steps;
}

export function matchesPath(steps: readonly Step[], path: Path, from = 0, at = 0): boolean {
  if (from === steps.length) return at === path.length;
  const step = steps[from] as Step;
  if (step === ANY_DEPTH) {
    for (let to = at; to <= path.length; to++) if (matchesPath(steps, path, from + 1, to)) return true;
    return false;
  }
  return at < path.length && (step === ANY || step === path[at]) && matchesPath(steps, path, from + 1, at + 1);
}
