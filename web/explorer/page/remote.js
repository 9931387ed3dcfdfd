'use strict'
// The library in the program that serves this page. A question is a form: its JSON, and files. The answer is lines of
// JSON: progress, then the answer or an error. Ending the worker ends the request, and with it the computation.
self.onmessage = async ({data}) => {
  const {id, name, request, files} = data
  try {
    if (name === 'load') {
      self.postMessage({id, answer: {}})
      return
    }
    const form = new FormData()
    form.append('request', JSON.stringify(request))
    for (const f of files || []) form.append('file', new Blob([f]))
    const response = await fetch(self.location.origin + '/call/' + name, {method: 'POST', body: form})
    if (!response.ok) throw new Error(await response.text())
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader()
    let text = ''
    for (;;) {
      const {done, value} = await reader.read()
      text += value || ''
      const lines = text.split('\n')
      text = lines.pop()
      for (const line of lines) {
        const message = JSON.parse(line)
        if (message.progress) self.postMessage(message)
        else return self.postMessage({id, ...message})
      }
      if (done) throw new Error('the program ended before it answered')
    }
  } catch (e) {
    self.postMessage({id, error: String(e && e.message || e)})
  }
}
