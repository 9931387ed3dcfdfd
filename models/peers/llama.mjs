// Tokens per second of llama.cpp as node-llama-cpp ships it, built for each kind of CPU, for the cases of `go test ./decoder -bench`.
//
//     npm i node-llama-cpp && cp peers/llama.mjs . && node llama.mjs FILE.gguf [threads] [repeat]
import {getLlama} from "node-llama-cpp";

const [file, threads = "2", repeat = "3"] = process.argv.slice(2);
const llama = await getLlama({gpu: false, maxThreads: +threads, build: "never"});
const model = await llama.loadModel({modelPath: file});
const ids = Array.from({length: 2048}, (_, i) => 100 + (i * 7919) % 48952);
const context = await model.createContext({contextSize: 4096, batchSize: 512, threads: +threads});
const sequence = context.getSequence();

async function report(task, tokens, n, run) {
    const rates = [], cpus = [];
    for (let i = 0; i < +repeat; i++) {
        await sequence.clearHistory();
        const prepared = task == "decode" ? await read(ids.slice(0, tokens)) : 0;
        const cpu = process.cpuUsage(), start = performance.now();
        await run();
        const used = process.cpuUsage(cpu);
        rates.push(n / (performance.now() - start) * 1000);
        cpus.push(n / (used.user + used.system) * 1e6);
    }
    const median = (x) => x.sort((a, b) => a - b)[x.length >> 1];
    console.log(JSON.stringify({model: "llama.cpp", task, tokens, threads: +threads, tokens_s: median(rates),
        tokens_cpu_s: median(cpus)}));
}
// controlledEvaluate reads tokens and makes logits for none but the last.
const read = (list) => sequence.controlledEvaluate(list.map((id, i) =>
    i + 1 < list.length ? id : [id, {generateNext: {token: true, options: {temperature: 0}}}]));

for (const n of [256, 1024]) await report("prefill", n, n, () => read(ids.slice(0, n)));
for (const n of [16, 1024])
    await report("decode", n, 32, async () => { for (let i = 0; i < 32; i++) await read([ids[i]]); });
process.exit(0);
