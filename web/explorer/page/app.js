'use strict'
// The page. Everything that is computed or listed comes from the library, through workers; here are only controls and drawing.

const $ = id => document.getElementById(id)
const SVG = 'http://www.w3.org/2000/svg'

// el makes an element; svg one of a drawing. Children are nodes or texts.
function make(node, attributes, children) {
  for (const [k, v] of Object.entries(attributes || {})) {
    if (v === false || v === undefined || v === null) continue
    if (k === 'on') for (const [event, f] of Object.entries(v)) node.addEventListener(event, f)
    else if (k === 'class') node.setAttribute('class', v)
    else if (v === true) node.setAttribute(k, '')
    else node.setAttribute(k, v)
  }
  node.append(...children.flat().filter(c => c !== null && c !== undefined))
  return node
}
const el = (tag, attributes, ...children) => make(document.createElement(tag), attributes, children)
const svg = (tag, attributes, ...children) => make(document.createElementNS(SVG, tag), attributes, children)

// ---- workers

class Client {
  constructor(module) {
    this.waiting = new Map()
    this.id = 0
    const url = URL.createObjectURL(new Blob([$('worker').textContent], {type: 'text/javascript'}))
    this.worker = new Worker(url)
    this.worker.onmessage = ({data}) => {
      if (data.progress) {
        this.onprogress?.(data.progress)
        return
      }
      const w = this.waiting.get(data.id)
      this.waiting.delete(data.id)
      if (data.error) w.reject(new Error(data.error))
      else w.resolve(data.answer)
    }
    this.worker.onerror = e => {
      for (const w of this.waiting.values()) w.reject(new Error(e.message || 'the worker failed'))
      this.waiting.clear()
    }
    this.loaded = this.send({name: 'load', module, base64: module ? undefined : $('wasm').textContent.trim()})
  }
  send(message) {
    const id = ++this.id
    return new Promise((resolve, reject) => {
      this.waiting.set(id, {resolve, reject})
      this.worker.postMessage({...message, id})
    })
  }
  async ask(name, request, files) {
    await this.loaded
    return this.send({name, request, files})
  }
}

let fast // answers while sliders move
let slow // draws and advises; made when first asked
let program
const slowly = () => slow ||= new Client(program)

// ---- numbers for people

// percent writes a relative error from log10 of its square.
function percent(logMSE) {
  if (logMSE === null) return '–'
  const log = logMSE / 2 + 2
  if (log > 6) return '10' + superscript(Math.round(log)) + ' %'
  return number(10 ** log) + ' %'
}
function superscript(n) {
  return String(n).replace(/[-0-9]/g, c => c === '-' ? '⁻' : '⁰¹²³⁴⁵⁶⁷⁸⁹'[c])
}
function number(v) {
  if (v === null || v === undefined) return '–'
  if (v === 0) return '0'
  const a = Math.abs(v)
  if (a >= 1e6 || a < 1e-4) {
    const [m, e] = v.toExponential(2).split('e')
    return m + '·10' + superscript(Number(e))
  }
  return String(Number(v.toPrecision(4)))
}
const fromLog = log => log === null ? null : 10 ** log

// ---- state

let registry, state, shown, defaults
const view = {dim: 3, rows: 6, seed: 1, unit: true}

const sliders = [
  {key: 'dim', label: 'Dimension d', hash: 'd', log: true, range: r => r.dim},
  {key: 'features', label: 'Features', hash: 'features', log: true, range: r => r.features},
  {key: 'queryLen', label: 'Length |x|', hash: 'x', range: r => [0, r.len], step: 0.01},
  {key: 'keyLen', label: 'Length |y|', hash: 'y', range: r => [0, r.len], step: 0.01},
  {key: 'angle', label: 'Angle in degrees', hash: 'angle', range: () => [0, 180], step: 0.5},
]

// A slider with a logarithmic scale has 200 positions.
const positions = 200
function toPosition(s, v) {
  if (!s.log) return v
  const [lo, hi] = s.range(registry.ranges)
  return Math.round(positions * Math.log(v / lo) / Math.log(hi / lo))
}
function fromPosition(s, p) {
  if (!s.log) return Number(p)
  const [lo, hi] = s.range(registry.ranges)
  return Math.round(lo * (hi / lo) ** (p / positions))
}

function toHash() {
  const q = new URLSearchParams()
  q.set('kernel', state.kernel)
  q.set('family', state.family)
  q.set('coupling', state.coupling)
  for (const s of sliders) q.set(s.hash, String(state[s.key]))
  q.set('show', shown.join(','))
  q.set('draw', [view.dim, view.rows, view.seed, view.unit ? 1 : 0].join(','))
  return '#' + q.toString()
}

// fromHash restores what is there and valid; the rest is as at the start.
function fromHash(hash) {
  state = {...registry.start}
  shown = [...registry.shown]
  Object.assign(view, {dim: 3, rows: 6, seed: 1, unit: true})
  const q = new URLSearchParams(hash.replace(/^#/, ''))
  const names = registry.families.map(f => f.name)
  const known = text => {
    try { return text.startsWith('{') ? JSON.parse(text).name : text } catch { return '' }
  }
  if (registry.kernels.includes(q.get('kernel'))) state.kernel = q.get('kernel')
  if (q.has('family') && names.includes(known(q.get('family')))) state.family = q.get('family')
  if (q.has('coupling') && registry.couplings.some(c => c.name === known(q.get('coupling')))) state.coupling = q.get('coupling')
  for (const s of sliders) {
    const [lo, hi] = s.range(registry.ranges)
    const v = Number(q.get(s.hash))
    if (q.has(s.hash) && v >= lo && v <= hi) state[s.key] = s.log ? Math.round(v) : v
  }
  if (q.has('show')) shown = q.get('show').split(',').filter(n => names.includes(n))
  const d = (q.get('draw') || '').split(',').map(Number)
  if ((d[0] === 2 || d[0] === 3) && d[1] >= 1 && d[1] <= registry.ranges.rows) {
    Object.assign(view, {dim: d[0], rows: Math.round(d[1]), seed: d[2] >= 0 ? Math.round(d[2]) : 1, unit: d[3] !== 0})
  }
}

let saving
function save() {
  clearTimeout(saving)
  saving = setTimeout(() => {
    if (location.hash === toHash()) return
    try { history.replaceState(null, '', toHash()) } catch { location.replace(toHash()) }
  }, 250)
}

const nameOf = text => text.startsWith('{') ? JSON.parse(text).name : text

// ---- controls

function buildControls() {
  const options = (select, list) => select.replaceChildren(...list.map(n => el('option', {value: n}, n)))
  options($('kernel'), registry.kernels)
  options($('family'), registry.families.map(f => f.name))
  options($('coupling'), registry.couplings.map(c => c.name))
  $('kernel').onchange = e => { state.kernel = e.target.value; changed() }
  $('family').onchange = e => { state.family = e.target.value; changed() }
  $('coupling').onchange = e => { state.coupling = e.target.value; changed() }
  $('value').onchange = e => setValue(e.target.value.trim())
  $('sliders').replaceChildren(...sliders.map(s => {
    const [lo, hi] = s.range(registry.ranges)
    const set = v => {
      if (!(v >= lo && v <= hi)) return
      state[s.key] = s.log ? Math.round(v) : v
      changed()
    }
    s.input = el('input', {type: 'range', id: s.key, min: s.log ? 0 : lo, max: s.log ? positions : hi, step: s.log ? 1 : s.step,
      on: {input: e => set(fromPosition(s, e.target.value))}})
    s.box = el('input', {type: 'number', id: s.key + '-box', min: lo, max: hi, step: s.log ? 1 : 'any',
      'aria-label': s.label + ', exactly', on: {input: e => e.target.value !== '' && set(Number(e.target.value))}})
    return el('div', {class: 'slider'}, el('label', {for: s.key}, s.label), s.box, s.input)
  }))
  $('controls').onsubmit = e => e.preventDefault()
}

// setValue takes parameters for the family: a JSON object, with or without its name.
function setValue(text) {
  const name = nameOf(state.family)
  if (text === '') state.family = name
  else {
    let value
    try { value = JSON.parse(text) } catch (e) {
      $('value-about').textContent = 'This is not a JSON object: ' + e.message
      $('value-about').classList.add('problem')
      return
    }
    state.family = JSON.stringify({name, ...value})
  }
  changed()
}

function showControls() {
  $('kernel').value = state.kernel
  $('family').value = nameOf(state.family)
  $('coupling').value = nameOf(state.coupling)
  if (document.activeElement !== $('value')) $('value').value = state.family.startsWith('{') ? state.family : ''
  for (const s of sliders) {
    s.input.value = toPosition(s, state[s.key])
    s.input.setAttribute('aria-valuetext', String(state[s.key]))
    if (document.activeElement !== s.box) s.box.value = state[s.key]
  }
  const f = registry.families.find(f => f.name === nameOf(state.family))
  $('family-about').textContent = `${f.summary}; positive: ${f.positive}; unbiased: ${f.unbiased ? 'yes' : 'no'}; ` +
    `features ${f.size}. ${f.reference}`
  const c = registry.couplings.find(c => c.name === nameOf(state.coupling))
  $('coupling-about').textContent = `${c.summary}. ${c.reference}`
  $('draw-dim').value = view.dim
  $('draw-rows').value = view.rows
  $('draw-unit').checked = view.unit
}

// ---- asking: one question at a time, and the last state wins

let busy = false, dirty = false, resting
function changed() {
  showControls()
  save()
  dirty = true
  if (!busy) refresh()
}

async function refresh() {
  busy = true
  while (dirty) {
    dirty = false
    try {
      const request = {...state, quick: true}
      let [theory, curves] = await Promise.all([fast.ask('theory', request),
        fast.ask('curves', {...request, families: shown})])
      await frame()
      showAll(theory, curves, false)
      clearTimeout(resting)
      // When the sliders rest, the families with slow fits come one by one.
      await new Promise(r => { resting = setTimeout(r, 120) })
      for (const row of theory.families.filter(r => r.pending)) {
        if (dirty) break
        await fast.ask('warm', {...state, name: row.family})
        if (dirty) break
        theory = await fast.ask('theory', request)
        if (shown.includes(row.family)) curves = await fast.ask('curves', {...request, families: shown})
        if (!dirty) showAll(theory, curves, false)
      }
      if (!dirty) {
        showAll(theory, curves, true)
        drawProjections()
      }
    } catch (e) {
      fail(e)
    }
  }
  busy = false
  document.documentElement.dataset.ready = '1' // for tests: what is shown belongs to the state
}
const frame = () => new Promise(r => document.hidden ? r() : requestAnimationFrame(r))

function fail(e) {
  $('sentence').textContent = ''
  $('numbers').replaceChildren()
  warn(e.message)
}
function warn(text) {
  $('warning').textContent = text || ''
  $('warning').hidden = !text
}

// ---- results

function showAll(theory, curves, rested) {
  delete document.documentElement.dataset.ready
  showNumbers(theory, rested)
  showFamilies(theory, rested)
  showCouplings(theory)
  const mark = name => shown.indexOf(name)
  showLegend()
  plot($('plot-angle'), curves.angle, {title: 'Error against the angle', label: 'angle between x and y, degrees',
    now: state.angle, mark, ticks: [0, 30, 60, 90, 120, 150, 180]})
  plot($('plot-length'), curves.length, {title: 'Error against the length', now: 1, mark, ticks: [0, 0.5, 1, 1.5, 2],
    label: `both lengths times (|x| = ${number(state.queryLen)}, |y| = ${number(state.keyLen)})`})
  plot($('plot-features'), curves.features, {title: 'Error against the number of features', label: 'features', log: true,
    now: state.features, mark, ticks: [4, 16, 64, 256, 1024, 4096]})
}

function showNumbers(t, rested) {
  const c = t.chosen
  const items = [
    ['kernel κ(x, y)', number(t.kernel), t.kernel],
    ['x·y', number(t.dot), t.dot],
    ['|x − y|', number(t.distance), t.distance],
    ['relative error (rms)', c.exact ? '0 %' : percent(c.logMSE), c.logMSE],
    ['relative bias', c.known ? c.logBias === null ? 'none' : percent(2 * c.logBias) : '–', c.logBias],
    ['relative standard deviation', c.exact ? '0 %' : percent(c.logVar), c.logVar],
    ['variance', c.known ? number(variance(t, c.logVar)) : '–', c.logVar],
    ['output features', String(c.features), c.features],
    ['projections m', String(c.m), c.m],
  ]
  const list = $('numbers')
  if (list.children.length !== items.length) {
    list.replaceChildren(...items.map(([name]) => el('div', null, el('dt', null, name), el('dd'))))
  }
  items.forEach(([, text, raw], i) => {
    const dd = list.children[i].lastChild
    if (dd.textContent !== text) dd.textContent = text
    dd.dataset.raw = String(raw)
  })
  const value = $('value-about')
  value.classList.remove('problem')
  value.textContent = c.value ? (c.fitted ? 'Fitted: ' : 'Used: ') + JSON.stringify(c.value) :
    c.fitted ? 'Fitted to isotropic rows; its matrices are too large to show.' : ''
  const notes = [c.warning, c.known ? c.reason : (c.reason || '')]
  if (c.approximate) notes.push('The closed form is an approximation here.')
  warn(notes.filter(Boolean).join(' '))
  $('mini').textContent = c.known ? `error ${c.exact ? '0 %' : percent(c.logMSE)} · κ ${number(t.kernel)}` : 'no closed form'
  if (!rested) return // screen readers hear what stays
  const best = t.families.find(r => r.known && !r.own)
  $('sentence').textContent = !c.known ? `There is no closed form for ${c.family} under ${c.coupling}.` :
    `${c.family} with ${c.coupling} projections: ${c.exact ? 'no error' : 'an error of ' + percent(c.logMSE)} ` +
    `of the kernel with ${c.features} features.` +
    (best && best.family !== c.family ? ` ${best.family} has the smallest error here: ${best.exact ? '0 %' : percent(best.logMSE)}.` :
      ' No other family has a smaller error here.')
}
const variance = (t, logVar) => t.logKernel === null || logVar === null ? null : 10 ** (logVar + 2 * t.logKernel)

function cells(row, values) {
  values.forEach((v, i) => {
    const cell = row.children[i]
    if (v instanceof Node) { if (cell.firstChild !== v) cell.replaceChildren(v) }
    else if (cell.textContent !== v) cell.textContent = v
  })
}

// keyed keeps one row per name, so that focus and ticks survive an update.
function keyed(table, head, names, fill) {
  if (!table.tHead) {
    table.append(el('thead', null, el('tr', null, ...head.map(([text, n]) => el('th', {scope: 'col', class: n}, text)))), el('tbody'))
    table.rowsByName = new Map()
  }
  const body = table.tBodies[0]
  for (const name of names) {
    if (table.rowsByName.has(name)) continue
    const row = el('tr', null, ...head.map(([, cls], i) => i === 0 ? el('th', {scope: 'row'}) : el('td', {class: cls})))
    table.rowsByName.set(name, row)
    body.append(row)
  }
  for (const name of names) fill(name, table.rowsByName.get(name))
  return order => {
    const now = [...body.children]
    const want = order.map(n => table.rowsByName.get(n))
    if (want.some((r, i) => r !== now[i])) {
      const focus = document.activeElement
      body.append(...want)
      if (body.contains(focus)) focus.focus()
    }
  }
}

function showFamilies(t, rested) {
  $('families-about').textContent = `At most ${state.features} output features, ${nameOf(state.coupling)} projections, ` +
    `least error first. Choose a family by its name.`
  const byName = new Map(t.families.map(r => [r.family, r]))
  const head = [['Family'], ['Plot'], ['Error', 'number'], ['Bias', 'number'], ['Features', 'number'], ['m', 'number'], ['Positive'], ['Remarks', 'why']]
  const order = keyed($('families'), head, registry.families.map(f => f.name), (name, row) => {
    const r = byName.get(name)
    const info = registry.families.find(f => f.name === name)
    if (!row.pick) {
      row.pick = el('button', {type: 'button', on: {click: () => { state.family = name; changed() }}}, name)
      row.tick = el('input', {type: 'checkbox', 'aria-label': 'plot ' + name, on: {change: e => {
        shown = e.target.checked ? [...shown, name].slice(-8) : shown.filter(n => n !== name)
        changed()
      }}})
    }
    row.tick.checked = shown.includes(name)
    row.classList.toggle('chosen', name === nameOf(state.family))
    row.pick.setAttribute('aria-pressed', String(name === nameOf(state.family)))
    row.dataset.family = name
    row.dataset.raw = String(r.logMSE)
    cells(row, [row.pick, row.tick, r.pending ? '…' : r.exact ? '0 %' : percent(r.logMSE),
      !r.known ? '–' : r.logBias === null ? 'none' : percent(2 * r.logBias),
      r.features ? String(r.features) : '–', r.m ? String(r.m) : '–', info.positive, [r.reason, r.warning].filter(Boolean).join(' ')])
  })
  if (rested) order(t.families.map(r => r.family))
}

function showCouplings(t) {
  const iid = t.couplings.find(r => r.known && r.coupling === 'iid')
  $('couplings-about').textContent = `${nameOf(state.family)} features under every coupling; variance relative to independent projections.`
  const byName = new Map(t.couplings.map(r => [r.coupling, r]))
  const head = [['Coupling'], ['Error', 'number'], ['Variance / iid', 'number'], ['Bias', 'number'], ['Remarks', 'why']]
  keyed($('couplings'), head, registry.couplings.map(c => c.name), (name, row) => {
    const r = byName.get(name)
    row.pick ||= el('button', {type: 'button', on: {click: () => { state.coupling = name; changed() }}}, name)
    row.classList.toggle('chosen', name === nameOf(state.coupling))
    row.pick.setAttribute('aria-pressed', String(name === nameOf(state.coupling)))
    row.dataset.coupling = name
    row.dataset.raw = r ? String(r.logMSE) : ''
    if (!r) { cells(row, [row.pick, '…', '–', '–', '']); return }
    const ratio = iid && r.known && iid.logVar !== null && r.logVar !== null ? number(10 ** (r.logVar - iid.logVar)) : '–'
    cells(row, [row.pick, r.exact ? '0 %' : percent(r.logMSE), ratio,
      !r.known ? '–' : r.logBias === null ? 'none' : percent(2 * r.logBias), [r.reason, r.warning].filter(Boolean).join(' ')])
  })
}

function showLegend() {
  $('legend').replaceChildren(...shown.map((name, i) => el('li', null,
    svg('svg', {viewBox: '0 0 34 12', 'aria-hidden': 'true'},
      svg('path', {class: `curve s${i % 8} d${i % 8}` + (name === nameOf(state.family) ? ' thick' : ''), d: 'M1,6H33'})),
    name)))
}

// ---- plots

const W = 420, H = 300, L = 74, R = 18, T = 10, B = 44

function plot(figure, data, o) {
  const x0 = o.log ? Math.log(data.x[0]) : data.x[0]
  const x1 = o.log ? Math.log(data.x[data.x.length - 1]) : data.x[data.x.length - 1]
  const px = v => L + (W - L - R) * ((o.log ? Math.log(v) : v) - x0) / (x1 - x0)
  // log10 of the relative error in percent, within bounds that keep a plot readable.
  const all = data.series.flatMap(s => s.y).filter(v => v !== null).map(v => Math.max(-6, Math.min(6, v / 2 + 2)))
  let lo = all.length ? Math.min(...all) : 0, hi = all.length ? Math.max(...all) : 2
  lo = Math.floor(lo + 1e-9)
  hi = Math.max(lo + 1, Math.ceil(hi - 1e-9))
  const py = v => T + (H - T - B) * (hi - v) / (hi - lo)
  const g = []
  const step = Math.max(1, Math.ceil((hi - lo) / 7))
  for (let e = lo; e <= hi; e += step) {
    g.push(svg('path', {class: 'grid', d: `M${L},${py(e)}H${W - R}`}),
      svg('text', {x: L - 6, y: py(e) + 4, 'text-anchor': 'end'}, e >= -2 && e <= 4 ? number(10 ** e) + ' %' : '10' + superscript(e) + ' %'))
  }
  for (const v of o.ticks) {
    g.push(svg('path', {class: 'grid', d: `M${px(v)},${T}V${H - B}`}),
      svg('text', {x: px(v), y: H - B + 17, 'text-anchor': 'middle'}, String(v)))
  }
  g.push(svg('path', {class: 'axis', d: `M${L},${T}V${H - B}H${W - R}`}),
    svg('text', {x: (L + W - R) / 2, y: H - 8, 'text-anchor': 'middle'}, o.label))
  for (const s of data.series) {
    const i = o.mark(s.family)
    let d = '', pen = false
    s.y.forEach((v, k) => {
      if (v === null) { pen = false; return }
      const y = v / 2 + 2
      d += (pen ? 'L' : 'M') + px(data.x[k]).toFixed(1) + ',' + py(Math.max(lo - 0.2, Math.min(hi + 0.2, y))).toFixed(1)
      pen = true
    })
    if (d) g.push(svg('path', {class: `curve s${i % 8} d${i % 8}` + (s.family === nameOf(state.family) ? ' thick' : ''), d,
      'data-family': s.family}))
  }
  if (o.now >= data.x[0] && o.now <= data.x[data.x.length - 1]) g.push(svg('path', {class: 'now', d: `M${px(o.now)},${T}V${H - B}`}))
  const drawing = svg('svg', {viewBox: `0 0 ${W} ${H}`, role: 'img', 'aria-label': `${o.title}. ${describe(data)} The numbers are in the table below.`}, g)
  let details = figure.querySelector('details')
  if (!details) {
    details = el('details', null, el('summary', null, 'Numbers'), el('div', {class: 'scroll', tabindex: '0', role: 'region', 'aria-label': o.title + ', numbers'}))
    details.ontoggle = () => fillTable(details)
    figure.replaceChildren(el('figcaption', null, o.title), drawing, details)
  } else figure.replaceChild(drawing, figure.querySelector('svg'))
  details.plot = {data, o}
  if (details.open) fillTable(details)
}

function describe(data) {
  return data.series.map(s => {
    const known = s.y.map((v, i) => [data.x[i], v]).filter(([, v]) => v !== null)
    if (!known.length) return `${s.family}: no closed form.`
    const [a, b] = [known[0], known[known.length - 1]]
    return `${s.family} from ${percent(a[1])} at ${number(a[0])} to ${percent(b[1])} at ${number(b[0])}.`
  }).join(' ')
}

function fillTable(details) {
  if (!details.open || !details.plot) return
  const {data, o} = details.plot
  const every = Math.max(1, Math.floor(data.x.length / 12))
  const rows = data.x.map((x, i) => [x, i]).filter(([, i]) => i % every === 0)
  details.lastChild.replaceChildren(el('table', null,
    el('caption', null, o.label),
    el('thead', null, el('tr', null, el('th', {scope: 'col', class: 'number'}, ''), ...data.series.map(s => el('th', {scope: 'col', class: 'number'}, s.family)))),
    el('tbody', null, ...rows.map(([x, i]) => el('tr', null, el('th', {scope: 'row', class: 'number'}, number(x)),
      ...data.series.map(s => el('td', {class: 'number'}, percent(s.y[i]))))))))
}

// ---- projections in the plane and in space

let turn = [0.5, -0.4] // angles of the view, in radians
const drawn = {}
let drawKey = ''

async function drawProjections() {
  const key = [state.coupling, view.dim, view.rows, view.seed].join(' ')
  if (key !== drawKey) {
    drawKey = key
    const request = {dim: view.dim, rows: view.rows, seed: view.seed}
    for (const [id, coupling] of [['draw-chosen', state.coupling], ['draw-iid', 'iid']]) {
      try {
        drawn[id] = {...await fast.ask('draw', {...request, coupling}), coupling: nameOf(coupling)}
      } catch (e) {
        drawn[id] = {error: e.message, coupling: nameOf(coupling)}
      }
    }
  }
  paintProjections()
}

function paintProjections() {
  for (const id of ['draw-chosen', 'draw-iid']) {
    if (drawn[id]) paint($(id), drawn[id])
  }
}

function paint(figure, d) {
  const size = 300, mid = size / 2
  const caption = d.error ? `${d.coupling}: ${d.error}` : d.coupling + ', ' + angles(d)
  if (d.error) { figure.replaceChildren(el('figcaption', null, caption)); return }
  const unit = v => { const n = Math.hypot(...v); return view.unit && n > 0 ? v.map(a => a / n) : v }
  const rows = d.rows.map(unit)
  const reach = Math.max(1e-9, ...rows.map(v => Math.hypot(...v)))
  const scale = 0.42 * size / reach
  const [cy, sy, cx, sx] = [Math.cos(turn[0]), Math.sin(turn[0]), Math.cos(turn[1]), Math.sin(turn[1])]
  const project = v => {
    if (v.length === 2) return [v[0], v[1], 0]
    const x = cy * v[0] + sy * v[2], z = -sy * v[0] + cy * v[2]
    return [x, cx * v[1] - sx * z, sx * v[1] + cx * z]
  }
  const parts = []
  const axes = view.dim === 3 ? [[1, 0, 0], [0, 1, 0], [0, 0, 1]] : [[1, 0], [0, 1]]
  for (const a of axes) {
    const [x, y] = project(a.map(v => v * reach))
    parts.push(svg('path', {class: 'grid', d: `M${mid - x * scale},${mid + y * scale}L${mid + x * scale},${mid - y * scale}`}))
  }
  parts.push(svg('circle', {class: 'grid', cx: mid, cy: mid, r: reach * scale}))
  rows.map((v, i) => [project(v), i]).sort((a, b) => a[0][2] - b[0][2]).forEach(([[x, y, z], i]) => {
    const block = d.block ? Math.floor(i / d.block) : i
    const near = 0.5 + 0.5 * (z / reach)
    parts.push(svg('g', {class: `s${block % 8}`, opacity: (0.35 + 0.65 * near).toFixed(2)},
      svg('path', {class: 'omega', d: `M${mid},${mid}L${(mid + x * scale).toFixed(1)},${(mid - y * scale).toFixed(1)}`}),
      svg('circle', {class: 'dot', cx: (mid + x * scale).toFixed(1), cy: (mid - y * scale).toFixed(1), r: (3 + 2 * near).toFixed(1)})))
  })
  const label = `${d.rows.length} projections of the ${d.coupling} coupling in ${view.dim} dimensions: ${angles(d)}.`
  const drawing = svg('svg', {viewBox: `0 0 ${size} ${size}`, class: 'view', role: 'img', tabindex: '0', 'aria-label': label}, parts)
  const old = figure.querySelector('svg')
  if (!old) {
    figure.replaceChildren(el('figcaption', null, caption), drawing)
    turnable(figure)
  } else {
    const focused = document.activeElement === old
    figure.replaceChild(drawing, old)
    if (focused) drawing.focus()
    figure.querySelector('figcaption').textContent = caption
  }
}

// angles says how the rows of the first block lie.
function angles(d) {
  if (!d.cosines || !d.cosines.length) return 'one row'
  const degrees = [...new Set(d.cosines.map(c => Math.round(Math.acos(Math.max(-1, Math.min(1, c))) * 180 / Math.PI) + '°'))]
  return (d.block ? `angles within a block ${degrees.join(', ')}` : `angles of the first rows ${degrees.join(', ')}`)
}

function turnable(figure) {
  let from
  figure.addEventListener('pointerdown', e => {
    if (!e.target.closest('svg') || view.dim !== 3) return
    from = [e.clientX, e.clientY]
    figure.setPointerCapture(e.pointerId)
  })
  figure.addEventListener('pointermove', e => {
    if (!from) return
    turn[0] += (e.clientX - from[0]) / 120
    turn[1] += (e.clientY - from[1]) / 120
    from = [e.clientX, e.clientY]
    requestAnimationFrame(paintProjections)
  })
  for (const event of ['pointerup', 'pointercancel']) figure.addEventListener(event, () => { from = null })
  figure.addEventListener('keydown', e => {
    const by = {ArrowLeft: [-0.1, 0], ArrowRight: [0.1, 0], ArrowUp: [0, -0.1], ArrowDown: [0, 0.1]}[e.key]
    if (!by || view.dim !== 3) return
    e.preventDefault()
    turn = [turn[0] + by[0], turn[1] + by[1]]
    paintProjections()
  })
}

// ---- draws and advice, in the second worker

async function measure() {
  const at = JSON.stringify(state)
  $('measure').disabled = true
  $('measured').textContent = 'Drawing …'
  try {
    const m = await slowly().ask('measure', {...state, draws: 300})
    $('measured').dataset.raw = JSON.stringify(m)
    $('measured').textContent = at !== JSON.stringify(state) ? '' :
      `Measured error ${percent(m.mse)} (interval ${m.mseLow === null ? '0 %' : percent(m.mseLow)} to ${percent(m.mseHigh)}), predicted ` +
      `${m.known ? percent(m.logMSE) : 'unknown'}; mean of the estimates over the kernel ${number(m.mean)} ± ${number(m.meanSE)}.` +
      (m.known && m.logMSE > m.mseHigh ? ' The predicted error comes from rare large errors, which 300 draws can miss.' : '')
  } catch (e) {
    $('measured').textContent = e.message
  }
  $('measure').disabled = false
}

async function advise(files) {
  if (files.length > 2) {
    $('advise-status').textContent = `${files.length} files: choose one table, or queries and keys.`
    return
  }
  const request = {kernel: state.kernel, features: state.features, scale: $('scale').value, positive: $('positive').checked,
    names: files.map(f => f.name), seed: 1}
  $('advise-status').textContent = 'Reading …'
  $('advice').replaceChildren()
  $('stop').hidden = false
  $('sample').disabled = $('file').disabled = true
  const client = slowly()
  client.onprogress = ({stage, done, total}) => { $('advise-status').textContent = `${stage} ${done}${total ? ' of ' + total : ''} …` }
  try {
    const bytes = await Promise.all(files.map(async f => new Uint8Array(await f.arrayBuffer())))
    showAdvice(await client.ask('advise', request, bytes))
  } catch (e) {
    $('advise-status').textContent = e.message
  }
  $('stop').hidden = true
  $('sample').disabled = $('file').disabled = false
}

function stopAdvice() {
  slow.worker.terminate() // the next question makes another
  for (const w of slow.waiting.values()) w.reject(new Error('Stopped.'))
  slow = undefined
}

function showAdvice(r) {
  const best = r.ranking?.[r.best]
  $('advise-status').textContent = best ? `Ranked ${r.ranking.length} estimators: ${best.name} is recommended.` : 'No estimator can be used here.'
  const relative = v => v === undefined ? '–' : number(100 * v) + ' %'
  const rows = (r.ranking || []).slice(0, 12).map((c, i) => el('tr', {class: i === r.best ? 'chosen' : '', 'data-name': c.name, 'data-raw': String(c.error)},
    el('th', {scope: 'row'}, c.name, i === r.best ? ' (recommended)' : ''),
    el('td', {class: 'number'}, relative(c.error)),
    el('td', {class: 'number'}, c.high ? `${relative(c.low)} – ${relative(c.high)}` : `half < ${relative(c.median)}, 95 % < ${relative(c.p95)}`),
    el('td', {class: 'number'}, c.draws === undefined ? '–' : String(c.draws)),
    el('td', {class: 'number'}, c.predicted === undefined ? '–' : relative(c.predicted)),
    el('td', {class: 'number'}, String(c.features)),
    el('td', null, c.positive ? 'yes' : 'no'),
    el('td', {class: 'number'}, c.cost === undefined ? '–' : number(c.cost))))
  const save = (name, type, text) => el('button', {type: 'button', on: {click: () => {
    const a = el('a', {download: name, href: URL.createObjectURL(new Blob([text], {type}))})
    a.click()
    setTimeout(() => URL.revokeObjectURL(a.href), 1000)
  }}}, 'Save ' + name)
  $('advice').replaceChildren(
    el('ul', {class: 'reasons'}, ...[...(r.notes || []), `Bandwidth ${number(r.scale)}.`, ...(r.reasons || [])].map(t => el('li', null, t))),
    el('div', {class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Ranking'}, el('table', {id: 'ranking'},
      el('thead', null, el('tr', null, ...[['Estimator'], [`Error (${r.measure}, ${r.loss})`, 'number'], ['Interval', 'number'], ['Draws', 'number'], ['Predicted', 'number'],
        ['Features', 'number'], ['Positive'], ['ns per row (counted)', 'number']].map(([t, c]) => el('th', {scope: 'col', class: c}, t)))),
      el('tbody', null, ...rows))),
    ...(r.code ? [el('h3', null, 'In Go'), el('pre', null, r.code)] : []),
    ...(r.spec ? [el('p', {class: 'row'}, save('spec.json', 'application/json', JSON.stringify(r.spec, null, ' ')),
      save('advice.json', 'application/json', JSON.stringify(r, null, ' ')))] : []))
}

// ---- start

async function start() {
  try {
    fast = new Client()
    program = (await fast.loaded).module
    registry = await fast.ask('registry', {})
  } catch (e) {
    $('status').textContent = 'The library cannot run here: ' + e.message
    $('status').className = 'problem'
    return
  }
  fromHash(location.hash)
  buildControls()
  $('status').textContent = ''
  window.addEventListener('hashchange', () => {
    if (location.hash === toHash()) return
    fromHash(location.hash)
    changed()
  })
  $('copy').onclick = async () => {
    const url = location.href.split('#')[0] + toHash()
    try {
      await navigator.clipboard.writeText(url)
      $('status').textContent = 'The link is copied.'
    } catch {
      location.hash = toHash()
      $('status').textContent = 'The address of this page is the link.'
    }
  }
  $('reset').onclick = () => { fromHash(''); changed() }
  $('measure').onclick = measure
  $('sample').onclick = () => advise([])
  $('stop').onclick = stopAdvice
  $('file').onchange = e => { if (e.target.files.length) advise([...e.target.files]) }
  const drop = $('drop')
  for (const event of ['dragenter', 'dragover']) drop.addEventListener(event, e => { e.preventDefault(); drop.classList.add('over') })
  for (const event of ['dragleave', 'drop']) drop.addEventListener(event, () => drop.classList.remove('over'))
  drop.addEventListener('drop', e => { e.preventDefault(); if (e.dataTransfer.files.length) advise([...e.dataTransfer.files]) })
  const redraw = () => { save(); drawProjections() }
  $('draw-dim').onchange = e => { view.dim = Number(e.target.value); redraw() }
  $('draw-rows').oninput = e => {
    const v = Math.round(Number(e.target.value))
    if (v >= 1 && v <= registry.ranges.rows) { view.rows = v; redraw() }
  }
  $('draw-unit').onchange = e => { view.unit = e.target.checked; redraw() }
  $('draw-again').onclick = () => { view.seed++; redraw() }
  changed()
}

start()
