'use strict'
// The library in a worker. The first message brings the program (gzip in base64, or compiled), the others questions.
let ready
self.progress = (stage, done, total) => self.postMessage({progress: {stage, done, total}})
self.onmessage = async ({data}) => {
  const {id, name, request, files} = data
  try {
    if (name === 'load') {
      ready = load(data)
      self.postMessage({id, answer: {module: await ready}})
      return
    }
    await ready
    const answer = JSON.parse(self.randfeat(name, JSON.stringify(request), ...(files || [])))
    if (answer.error) self.postMessage({id, error: answer.error})
    else self.postMessage({id, answer})
  } catch (e) {
    self.postMessage({id, error: String(e && e.message || e)})
  }
}

async function load({base64, module}) {
  if (!module) {
    const text = atob(base64)
    const bytes = new Uint8Array(text.length)
    for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i)
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'))
    module = await WebAssembly.compile(await new Response(stream).arrayBuffer())
  }
  const go = new self.Go()
  go.run(await WebAssembly.instantiate(module, go.importObject)) // never ends
  return module
}
