/**
 * Draws what was learnt, out of SQL: mean reward of the rollouts by the policy version that played them, one line per environment, and the control's mean over all of them.
 *
 *   node examples/learning/curve.ts [--url http://127.0.0.1:7070] [--run learning] [--control control] > curve.svg
 */
import { parseArgs } from 'node:util';
import { z } from 'zod';

const { values } = parseArgs({
  options: {
    url: { type: 'string', default: 'http://127.0.0.1:7070' },
    run: { type: 'string', default: 'learning' },
    control: { type: 'string', default: 'control' },
  },
});

const [WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM] = [720, 300, 44, 16, 112, 40];
/** Versions that make one point. */
const BIN = 4;
const COLOURS: Readonly<Record<string, string>> = { copy: '#2f6fbb', sum: '#2e8b57', guess: '#b5651d', control: '#8a8a8a' };

type Point = { readonly line: string; readonly version: number; readonly reward: number };
const answer = z.object({ data: z.array(z.object({ line: z.string(), version: z.coerce.number(), reward: z.number() })) });

async function points(): Promise<Point[]> {
  const query = `SELECT if(run = {run:String}, env, 'control') AS line, (intDiv(policy_version_min, ${BIN}) + 0.5) * ${BIN} AS version, avg(rollouts.reward) AS reward
    FROM rollouts WHERE run IN ({run:String}, {control:String}) AND rollouts.reward IS NOT NULL GROUP BY line, version ORDER BY line, version`;
  const body = JSON.stringify({ query, params: { run: values.run, control: values.control }, format: 'json' });
  const asked = await fetch(new URL('/v1/sql', values.url), { method: 'POST', headers: { 'content-type': 'application/json' }, body });
  if (!asked.ok) throw new Error(await asked.text());
  return answer.parse(await asked.json()).data;
}

function draw(all: readonly Point[]): string {
  const last = Math.max(...all.map(({ version }) => version));
  const x = (version: number): number => LEFT + (version / last) * (WIDTH - LEFT - RIGHT);
  const y = (reward: number): number => TOP + (1 - reward) * (HEIGHT - TOP - BOTTOM);
  const text = (at: readonly [number, number], said: string, more = ''): string =>
    `<text x="${at[0].toFixed(1)}" y="${at[1].toFixed(1)}" ${more}>${said}</text>`;
  const grid = [0, 0.2, 0.4, 0.6, 0.8, 1].map(
    (reward) =>
      `<path d="M${LEFT} ${y(reward).toFixed(1)}H${WIDTH - RIGHT}" stroke="#e3e3e3"/>${text([LEFT - 8, y(reward) + 4], reward.toFixed(1), 'text-anchor="end"')}`,
  );
  const ticks = Array.from({ length: Math.floor(last / 10) + 1 }, (_, i) => text([x(i * 10), HEIGHT - BOTTOM + 18], String(i * 10), 'text-anchor="middle"')); // prettier-ignore
  const lines = [...Map.groupBy(all, ({ line }) => line)].map(([line, its]) => {
    const path = its.map(({ version, reward }, i) => `${i === 0 ? 'M' : 'L'}${x(version).toFixed(1)} ${y(reward).toFixed(1)}`).join('');
    return `<path d="${path}" fill="none" stroke="${COLOURS[line] ?? '#000'}" stroke-width="2"${line === 'control' ? ' stroke-dasharray="5 4"' : ''}/>`;
  });
  const legend = [...new Set(all.map(({ line }) => line))].map((line, i) =>
    text([WIDTH - RIGHT + 12, TOP + 14 + i * 20], line, `fill="${COLOURS[line] ?? '#000'}" font-weight="bold"`),
  );
  const middle = LEFT + (WIDTH - LEFT - RIGHT) / 2;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" font-family="sans-serif" font-size="12" fill="#444">`,
    `<title>Mean reward by policy version</title><rect width="${WIDTH}" height="${HEIGHT}" fill="#fff"/>`,
    ...grid,
    ...ticks,
    text([middle, HEIGHT - 6], 'policy version', 'text-anchor="middle"'),
    ...lines,
    ...legend,
    '</svg>',
  ].join('\n');
}

console.log(draw(await points()));
