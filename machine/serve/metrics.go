package serve

import (
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	process "github.com/VictoriaMetrics/metrics"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/machine/watch"
)

// metrics are the measurements of one server. There is no global registry, so two servers in a process do not
// collide.
type metrics struct {
	requests, seconds, inFlight, rows, rejected, panics, reloads, batch, model, loaded *measure
	surprises, connections                                                             *measure
	watchP, watchChanged, watchColumns, watchFar, watchRows                            *measure

	all []*measure
}

// secondsBuckets and rowsBuckets are the upper bounds of histograms, without +Inf.
var (
	secondsBuckets = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}
	rowsBuckets    = []float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512}
)

func newMetrics() *metrics {
	m := new(metrics)
	histogram := func(bounds []float64, name, help string, labels ...string) *measure {
		f := &measure{name: name, help: help, kind: "histogram", labels: labels, bounds: bounds}
		m.all = append(m.all, f)
		if len(labels) == 0 {
			f.with() // exists with value 0 from the start, as Prometheus recommends
		}
		return f
	}
	add := func(kind, name, help string, labels ...string) *measure {
		f := histogram(nil, name, help, labels...)
		f.kind = kind
		return f
	}
	m.requests = add("counter", "randfeat_http_requests_total", "Requests answered, by path and status.", "code",
		"path")
	m.seconds = histogram(secondsBuckets, "randfeat_http_request_seconds",
		"Time from the header of a request to the end of its answer.", "path")
	m.inFlight = add("gauge", "randfeat_predict_in_flight", "Requests for predictions waiting or in work.")
	m.connections = add("gauge", "randfeat_connections", "Connections that are open.")
	m.rows = add("counter", "randfeat_predict_rows_total", "Rows predicted.")
	m.rejected = add("counter", "randfeat_rejected_total", "Requests answered with an error, by its code.", "reason")
	m.panics = add("counter", "randfeat_panics_total", "Bugs: see the log.")
	m.reloads = add("counter", "randfeat_reloads_total",
		"Reloads of the model file: new, same (the file has not changed) or failed (the old model stays).", "result")
	m.batch = histogram(rowsBuckets, "randfeat_batch_rows", "Rows predicted in one call.")
	m.surprises = add("counter", "randfeat_surprises_total",
		"Values unlike those of the fit, by column: unseen levels, missing, below or above the range, changed constants.",
		"column", "what")
	m.model = add("gauge", "randfeat_model_info", "The model that answers.", "kind", "sha256", "task")
	m.loaded = add("gauge", "randfeat_model_loaded_timestamp_seconds", "When the model was loaded.")
	m.watchP = add("gauge", "randfeat_watch_p", "Probability of rows as unlike those of the fit, without a change.")
	m.watchChanged = add("gauge", "randfeat_watch_changed", "1 if the newest rows are unlike those of the fit.")
	m.watchColumns = add("gauge", "randfeat_watch_changed_columns", "Columns that changed by themselves.")
	m.watchFar = add("gauge", "randfeat_watch_far_share", "Share of rows far from all rows of the fit.")
	m.watchRows = add("gauge", "randfeat_watch_rows", "Rows of the last report.")
	m.watchP.with().set(1)
	for _, r := range []string{"new", "same", "failed"} {
		m.reloads.with(r)
	}
	return m
}

// metadata makes the metrics library write types for process metrics as well.
var metadata = sync.OnceFunc(func() { process.ExposeMetadata(true) })

// write writes the text format of Prometheus, version 0.0.4, and the metrics of the process.
func (m *metrics) write(w http.ResponseWriter) {
	metadata()
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	var b []byte
	for _, f := range m.all {
		b = f.append(b)
	}
	w.Write(b)
	process.WriteProcessMetrics(w)
	process.WriteFDMetrics(w)
}

func (m *metrics) answered(path string, status int, took time.Duration) {
	m.requests.with(strconv.Itoa(status), path).add(1)
	m.seconds.with(path).observe(secondsBuckets, took.Seconds())
}

func (m *metrics) surprised(list []data.Surprise) {
	for _, s := range list {
		m.surprises.with(s.Column, s.What).add(float64(s.Rows))
	}
}

// watched sets the gauges of a report.
func (m *metrics) watched(r *watch.Report) {
	changed, columns := 0.0, 0.0
	if r.Changed {
		changed = 1
	}
	for _, c := range r.Columns {
		if c.Changed {
			columns++
		}
	}
	m.watchP.with().set(r.P)
	m.watchChanged.with().set(changed)
	m.watchColumns.with().set(columns)
	m.watchFar.with().set(r.Far)
	m.watchRows.with().set(float64(r.Rows))
}

// measure is a metric family: all series of one name, by the values of its labels. Labels are in the order of
// their names. Any number of goroutines may use it.
type measure struct {
	name, help, kind string
	labels           []string
	bounds           []float64 // upper bounds of a histogram; nil for others

	mu     sync.RWMutex
	series map[labelValues]*series
}

// labelValues are the label values of a series; unused ones are empty.
type labelValues [3]string

// series is one line of a counter or gauge, or one histogram.
type series struct {
	value   adder           // for a histogram: the sum of the observed values
	buckets []atomic.Uint64 // observations per bucket; the last is above all bounds
}

// with returns the series for some label values and creates it on first use.
func (f *measure) with(values ...string) *series {
	var key labelValues
	copy(key[:], values)
	f.mu.RLock()
	s := f.series[key]
	f.mu.RUnlock()
	if s != nil {
		return s
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.make(key)
}

// make returns the series of a key. The caller holds mu.
func (f *measure) make(key labelValues) *series {
	s := f.series[key]
	if s == nil {
		if s = new(series); f.bounds != nil {
			s.buckets = make([]atomic.Uint64, len(f.bounds)+1)
		}
		if f.series == nil {
			f.series = map[labelValues]*series{}
		}
		f.series[key] = s
	}
	return s
}

// replace sets one series and removes all others, for info metrics whose labels change.
func (f *measure) replace(v float64, values ...string) {
	var key labelValues
	copy(key[:], values)
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.series)
	f.make(key).set(v)
}

func (s *series) add(v float64) { s.value.add(v) }
func (s *series) set(v float64) { s.value.Store(math.Float64bits(v)) }

func (s *series) observe(bounds []float64, v float64) {
	i, _ := slices.BinarySearch(bounds, v) // the first bound ≥ v: a bucket holds values up to its bound
	s.buckets[i].Add(1)
	s.value.add(v)
}

// adder is a float64 that many goroutines may add to.
type adder struct{ atomic.Uint64 }

func (n *adder) get() float64 { return math.Float64frombits(n.Load()) }

func (n *adder) add(v float64) {
	for {
		old := n.Load()
		if n.CompareAndSwap(old, math.Float64bits(math.Float64frombits(old)+v)) {
			return
		}
	}
}

// append writes a family: its help and type, then its series in the order of their labels.
func (f *measure) append(b []byte) []byte {
	b = append(b, "# HELP "+f.name+" "+f.help+"\n# TYPE "+f.name+" "+f.kind+"\n"...)
	f.mu.RLock()
	defer f.mu.RUnlock()
	keys := slices.Collect(maps.Keys(f.series))
	slices.SortStableFunc(keys, func(a, b labelValues) int { return slices.Compare(a[:], b[:]) })
	for _, key := range keys {
		s := f.series[key]
		if f.bounds == nil {
			b = f.sample(b, "", key, "", s.value.get())
			continue
		}
		total := uint64(0) // buckets are cumulative, and the last is the count
		for i := range s.buckets {
			le := "+Inf"
			if i < len(f.bounds) {
				le = strconv.FormatFloat(f.bounds[i], 'g', -1, 64)
			}
			total += s.buckets[i].Load()
			b = f.sample(b, "_bucket", key, le, float64(total))
		}
		b = f.sample(b, "_sum", key, "", s.value.get())
		b = f.sample(b, "_count", key, "", float64(total))
	}
	return b
}

// labelEscapes are the escapes of the text format.
var labelEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

func (f *measure) sample(b []byte, suffix string, key labelValues, le string, v float64) []byte {
	b = append(append(b, f.name...), suffix...)
	open := byte('{')
	label := func(name, value string) {
		b = append(append(append(b, open), name...), `="`...)
		b = append(append(b, labelEscapes.Replace(value)...), '"')
		open = ','
	}
	for i, name := range f.labels {
		label(name, key[i])
	}
	if le != "" {
		label("le", le)
	}
	if open == ',' {
		b = append(b, '}')
	}
	return append(strconv.AppendFloat(append(b, ' '), v, 'g', -1, 64), '\n')
}
