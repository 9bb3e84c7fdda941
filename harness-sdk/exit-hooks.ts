/**
 * What happens to open recorders when the process ends. One registry per process, whatever number of copies of this package is loaded, so that no copy takes another's
 * signal handler for the program's own.
 *
 *   exit         everything to disk, synchronously
 *   beforeExit   nothing keeps the process running any more: deliver, for a bounded time
 *   SIGTERM, SIGINT   everything to disk, then deliver for a bounded time; then, if the program has no handler of its own, the signal takes its course. Where the
 *                program has one, ending is its affair.
 */

export type ExitHook = {
  /** Everything to disk, synchronously; `isLast`: nothing comes after it. Must not throw. */
  persist(isLast: boolean): void;
  /** Delivers for a bounded time. Must not throw. */
  deliver(): Promise<void>;
  /** Events without a final answer, and those that have one. */
  progress(): { readonly waiting: number; readonly settled: number };
};

type Signal = 'SIGTERM' | 'SIGINT';
type Registry = { readonly hooks: Set<ExitHook>; readonly listeners: Map<string, (...args: never[]) => void> };

const SIGNALS: readonly Signal[] = ['SIGTERM', 'SIGINT'];
const KEY = Symbol.for('tapedeck.harness.exit.1');

/** Adds a hook; the first one installs the handlers, the last one that goes removes them. Returns the removal. */
export function addExitHook(hook: ExitHook): () => void {
  const registry = registryOf(globalThis as { [KEY]?: Registry });
  registry.hooks.add(hook);
  if (registry.listeners.size === 0) install(registry);
  return () => {
    registry.hooks.delete(hook);
    if (registry.hooks.size === 0) uninstall(registry);
  };
}

function registryOf(holder: { [KEY]?: Registry }): Registry {
  holder[KEY] ??= { hooks: new Set(), listeners: new Map() };
  return holder[KEY];
}

function install(registry: Registry): void {
  const { hooks, listeners } = registry;
  const persistAll = (isLast: boolean): void => {
    for (const hook of hooks) hook.persist(isLast);
  };
  const deliverAll = async (): Promise<void> => {
    await Promise.all([...hooks].map((hook) => hook.deliver()));
  };
  let signalled = false;
  let settledBefore = -1;
  const onSignal = (signal: Signal): void => {
    persistAll(false);
    const isAlone = process.listeners(signal).every((listener) => listener === listeners.get(signal));
    if (!isAlone) return void deliverAll();
    // a second signal does not wait for the first
    if (signalled) return passOn(registry, signal);
    signalled = true;
    void deliverAll().then(() => passOn(registry, signal));
  };
  const onBeforeExit = (): void => {
    const waiting = [...hooks].some((hook) => hook.progress().waiting > 0);
    const settled = [...hooks].reduce((sum, hook) => sum + hook.progress().settled, 0);
    // it comes again after what is done in it: once more only when that helped
    if (!waiting || settled === settledBefore) return;
    settledBefore = settled;
    void deliverAll();
  };
  listeners.set('exit', () => persistAll(true));
  listeners.set('beforeExit', onBeforeExit);
  for (const signal of SIGNALS) listeners.set(signal, () => onSignal(signal));
  for (const [event, listener] of listeners) process.on(event, listener as () => void);
}

function uninstall({ listeners }: Registry): void {
  for (const [event, listener] of listeners) process.off(event, listener as () => void);
  listeners.clear();
}

/** As if we had never listened. */
function passOn(registry: Registry, signal: Signal): void {
  const listener = registry.listeners.get(signal);
  if (listener !== undefined) process.off(signal, listener as () => void);
  process.kill(process.pid, signal);
}
