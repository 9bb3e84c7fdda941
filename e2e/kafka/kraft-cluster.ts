/** A real Kafka cluster (KRaft, broker and controller in one process a node) from jars, whose nodes can be killed, stopped and started one by one. */
import { execFile, spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { closeSync, existsSync, openSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { kafkaJars } from './kafka-jars.ts';

export type KraftCluster = {
  /** `host:port` of every node, in order of their ids (1, 2, …). */
  readonly brokers: readonly string[];
  readonly ports: readonly number[];
  readonly directory: string;
  /** With `users`: the listener with TLS and SASL of the first node, and the certificate (PEM) to trust. */
  readonly secure: { readonly broker: string; readonly certificate: string } | null;
  /** SIGKILL by default; resolves when the process is gone. */
  kill(id: number, signal?: NodeJS.Signals): Promise<void>;
  start(id: number): Promise<void>;
  /** SIGSTOP and SIGCONT. */
  pause(id: number): void;
  resume(id: number): void;
  stop(): Promise<void>;
};

export type ClusterOptions = {
  readonly nodes: number;
  readonly config?: Readonly<Record<string, string | number | boolean>>;
  /** The port that clients are told, when it is not the broker's own (a proxy stands before it). */
  readonly advertisedPort?: (id: number, port: number) => number;
  /** A second listener with TLS and SASL (PLAIN and SCRAM-SHA-256) for these users and their passwords. */
  readonly users?: Readonly<Record<string, string>>;
  /** Where the nodes keep their data; a temporary folder by default, removed at the end. */
  readonly dataDirectory?: (id: number) => string;
};

type Node = { readonly id: number; readonly port: number; readonly properties: string; readonly log: string; process: ChildProcess | null };

const START_TIMEOUT_MS = 90_000;
const STOP_GRACE_MS = 5000;
const FIRST_PORT = 12_000;
const PORTS = 18_000;
const KEY_STORE = 'broker.p12';
const KEY_STORE_PASSWORD = 'for-tests-only';
const run = promisify(execFile);
const LOGGING = `Configuration:
  Appenders: {Console: {name: out, PatternLayout: {pattern: "[%d] %p %m (%c)%n"}}}
  Loggers:
    Root: {level: WARN, AppenderRef: [{ref: out}]}
    Logger: [{name: kafka.server.KafkaRaftServer, level: INFO}]
`;

export async function startKraftCluster(options: ClusterOptions): Promise<KraftCluster> {
  const jars = await kafkaJars();
  const directory = await mkdtemp(join(tmpdir(), 'tapedeck-kafka-'));
  const ports = await freePorts(options.nodes * 3);
  const certificate = options.users === undefined ? null : await makeCertificate(directory);
  await writeFile(join(directory, 'log4j2.yaml'), LOGGING);
  const memory = ['-Xmx400m', '-Xms64m', '-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1', '-Xshare:auto'];
  const java = [...memory, `-Dlog4j2.configurationFile=${join(directory, 'log4j2.yaml')}`, '-cp', join(jars, '*')];
  const nodes = await Promise.all(ports.slice(0, options.nodes).map(async (_, index) => writeNode(index + 1, directory, ports, options)));
  // The first byte is zero, because an id that begins with a dash is taken for an option.
  const clusterId = Buffer.concat([Buffer.alloc(1), randomBytes(15)]).toString('base64url');
  await Promise.all(nodes.map(async (node) => format(java, node, clusterId, options.users ?? {})));
  const reap = (): void => {
    for (const node of nodes) node.process?.kill('SIGKILL');
  };
  process.once('exit', reap);

  const nodeOf = (id: number): Node => nodes[id - 1] as Node;
  const cluster: KraftCluster = {
    brokers: nodes.map((node) => `127.0.0.1:${node.port}`),
    ports: nodes.map((node) => node.port),
    directory,
    secure: certificate === null ? null : { broker: `127.0.0.1:${ports[options.nodes * 2]}`, certificate },
    kill: async (id, signal = 'SIGKILL') => {
      const running = nodeOf(id).process;
      if (running === null) return;
      running.kill(signal);
      await once(running, 'exit');
    },
    start: async (id) => startNode(java, nodeOf(id)),
    pause: (id) => void nodeOf(id).process?.kill('SIGSTOP'),
    resume: (id) => void nodeOf(id).process?.kill('SIGCONT'),
    stop: async () => {
      process.off('exit', reap);
      await Promise.all(nodes.map(stopNode));
      await rm(directory, { recursive: true, force: true, maxRetries: 3 });
    },
  };
  try {
    await Promise.all(nodes.map(async (node) => startNode(java, node)));
    return cluster;
  } catch (error) {
    await cluster.stop();
    throw error;
  }
}

async function writeNode(id: number, directory: string, ports: readonly number[], options: ClusterOptions): Promise<Node> {
  const { nodes } = options;
  const port = ports[id - 1] as number;
  const controllerPort = (node: number): number => ports[nodes + node - 1] as number;
  const voters = Array.from({ length: nodes }, (_, index) => `${index + 1}@127.0.0.1:${controllerPort(index + 1)}`).join(',');
  const replicas = Math.min(3, nodes);
  const inSync = nodes >= 3 ? 2 : 1;
  const data = options.dataDirectory?.(id) ?? join(directory, `data${id}`);
  await mkdir(data, { recursive: true });
  const properties = {
    'process.roles': 'broker,controller',
    'node.id': id,
    'controller.quorum.voters': voters,
    'controller.listener.names': 'CONTROLLER',
    listeners: `PLAINTEXT://127.0.0.1:${port},CONTROLLER://127.0.0.1:${controllerPort(id)}`,
    'advertised.listeners': `PLAINTEXT://127.0.0.1:${options.advertisedPort?.(id, port) ?? port}`,
    'listener.security.protocol.map': 'PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SASL_SSL',
    'log.dirs': data,
    'num.network.threads': 2,
    'num.io.threads': 4,
    'background.threads': 2,
    'log.cleaner.dedupe.buffer.size': 16_777_216,
    'offsets.topic.replication.factor': replicas,
    'transaction.state.log.replication.factor': replicas,
    'transaction.state.log.min.isr': inSync,
    'share.coordinator.state.topic.replication.factor': replicas,
    'share.coordinator.state.topic.min.isr': inSync,
    'default.replication.factor': replicas,
    'min.insync.replicas': inSync,
    'auto.create.topics.enable': false,
    'group.initial.rebalance.delay.ms': 0,
    'unclean.leader.election.enable': false,
    // A killed leader is noticed in four seconds instead of nine.
    'broker.session.timeout.ms': 4000,
    'broker.heartbeat.interval.ms': 500,
    'controller.quorum.fetch.timeout.ms': 2000,
    'auto.leader.rebalance.enable': false,
    ...options.config,
  };
  if (options.users !== undefined)
    Object.assign(properties, secureListener(options.users, directory, properties, ports[nodes * 2 + id - 1] as number));
  const file = join(directory, `node${id}.properties`);
  const lines = Object.entries(properties).map(([name, value]) => `${name}=${value}`);
  await writeFile(file, `${lines.join('\n')}\n`);
  return { id, port, properties: file, log: join(directory, `node${id}.log`), process: null };
}

/** What a node needs beside the plain listener to offer one with TLS and SASL. */
function secureListener(
  users: Readonly<Record<string, string>>,
  directory: string,
  plain: { listeners: string; 'advertised.listeners': string },
  port: number,
): Record<string, string> {
  const logins = Object.entries(users).map(([name, password]) => `user_${name}="${password}"`);
  const security = 'org.apache.kafka.common.security';
  return {
    listeners: `${plain.listeners},SECURE://127.0.0.1:${port}`,
    'advertised.listeners': `${plain['advertised.listeners']},SECURE://127.0.0.1:${port}`,
    'listener.name.secure.sasl.enabled.mechanisms': 'PLAIN,SCRAM-SHA-256',
    'listener.name.secure.plain.sasl.jaas.config': `${security}.plain.PlainLoginModule required ${logins.join(' ')};`,
    'listener.name.secure.scram-sha-256.sasl.jaas.config': `${security}.scram.ScramLoginModule required;`,
    'listener.name.secure.ssl.keystore.location': join(directory, KEY_STORE),
    'listener.name.secure.ssl.keystore.password': KEY_STORE_PASSWORD,
    'listener.name.secure.ssl.keystore.type': 'PKCS12',
  };
}

/** Makes a key and a certificate of the broker for 127.0.0.1 with the JDK's own tool, and returns the certificate. */
async function makeCertificate(directory: string): Promise<string> {
  const store = ['-keystore', join(directory, KEY_STORE), '-storetype', 'PKCS12', '-storepass', KEY_STORE_PASSWORD, '-alias', 'broker'];
  const subject = ['-dname', 'CN=127.0.0.1', '-ext', 'SAN=ip:127.0.0.1'];
  await run('keytool', ['-genkeypair', '-keyalg', 'EC', '-groupname', 'secp256r1', '-validity', '2', ...subject, ...store]);
  return (await run('keytool', ['-exportcert', '-rfc', ...store])).stdout;
}

async function format(java: readonly string[], node: Node, clusterId: string, users: Readonly<Record<string, string>>): Promise<void> {
  const scram = Object.entries(users).flatMap(([name, password]) => ['--add-scram', `SCRAM-SHA-256=[name=${name},password=${password}]`]);
  const tool = spawn('java', [...java, 'kafka.tools.StorageTool', 'format', '-t', clusterId, '-c', node.properties, ...scram], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let complaint = '';
  tool.stderr.on('data', (bytes: Buffer) => (complaint += bytes.toString()));
  const [code] = (await once(tool, 'exit')) as [number | null];
  if (code !== 0) throw new Error(`the data folder of node ${node.id} could not be formatted: ${complaint}`);
}

async function startNode(java: readonly string[], node: Node): Promise<void> {
  if (node.process !== null) throw new Error(`node ${node.id} runs already`);
  const logStart = existsSync(node.log) ? (await readFile(node.log)).length : 0;
  const log = openSync(node.log, 'a');
  const child = spawn('java', [...java, 'kafka.Kafka', node.properties], { stdio: ['ignore', log, log] });
  closeSync(log);
  node.process = child;
  child.once('exit', () => {
    if (node.process === child) node.process = null;
  });
  const until = Date.now() + START_TIMEOUT_MS;
  const isReady = async (): Promise<boolean> =>
    (await readFile(node.log)).subarray(logStart).includes('Kafka Server started') && (await answers(node.port));
  while (!(await isReady())) {
    if (child.exitCode !== null || child.signalCode !== null || Date.now() > until) {
      const text = (await readFile(node.log, 'utf8')).slice(-4000);
      throw new Error(`node ${node.id} did not start:\n${text}`);
    }
    await sleep(100);
  }
}

async function stopNode(node: Node): Promise<void> {
  const child = node.process;
  if (child === null) return;
  const gone = once(child, 'exit');
  child.kill('SIGCONT');
  child.kill('SIGTERM');
  // A quorum that stops all at once can wait for a controller that is gone.
  const impatience = setTimeout(() => child.kill('SIGKILL'), STOP_GRACE_MS);
  await gone;
  clearTimeout(impatience);
}

/**
 * Ports that are free now and stay so until a node takes them: below the range from which the system gives ports to outgoing connections, of which the
 * suites that run beside this one open many.
 */
async function freePorts(count: number): Promise<number[]> {
  const ports = new Set<number>();
  while (ports.size < count) {
    const port = FIRST_PORT + Math.floor(Math.random() * PORTS);
    const server = createServer();
    const isFree = await new Promise<boolean>((resolve) => {
      server.once('error', () => resolve(false));
      server.listen(port, '127.0.0.1', () => resolve(true));
    });
    if (!isFree) continue;
    await new Promise((resolve) => server.close(resolve));
    ports.add(port);
  }
  return [...ports];
}

function answers(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', () => resolve(false));
  });
}
