package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/text"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/par"
	"github.com/randfeat/randfeat/machine"
	"github.com/randfeat/randfeat/machine/watch"
)

// watcher compares the newest rows of the requests with those of the fit. Requests only copy their encoded rows; a
// goroutine of its own sums them when there are enough. Rows are left out if summing would take more than watchShare of
// the time of the requests, or if the watcher is busy: no request waits for it.
//
// The window is a ring of monitors; whenever one is full, all of them together are read once.
type watcher struct {
	ref    *watch.Reference
	window int
	log    *slog.Logger
	notify func(*watch.Report)

	served, spent atomic.Int64 // nanoseconds of requests and of watching

	mu      sync.Mutex // TryLock on the path of a request
	enc     map[*batcher]*watch.Encoder
	x, y    dense.Matrix[float64] // rows that wait
	pending int
	summing bool // a goroutine has the rows of back
	backX   dense.Matrix[float64]
	backY   dense.Matrix[float64]

	state     sync.Mutex // guards the rest
	ring      []*watch.Monitor
	at, each  int // monitor that is being filled, rows of each
	total     int64
	sequence  watch.Sequence
	report    *watch.Report // of the last look; nil: none yet
	feedback  *machine.Evaluation
	predictor *machine.Predictor[float64]
}

const (
	// watchShare is the largest share of the time of requests that watching them takes, after watchFree.
	watchShare = 0.03
	watchFree  = 100 * time.Millisecond
	// watchBlock is the number of rows that are summed together.
	watchBlock = 128
	// watchBytes bounds the sums of the monitors; each also has a workspace of about watchBlock encoded rows.
	watchBytes = 3 << 19
	// watchParts is the number of monitors of a window, and leastParts that of a wide table.
	watchParts, leastParts = 10, 2
)

// newWatcher watches with the reference of a model; nil if it has none.
func newWatcher(m *machine.Model, window int, log *slog.Logger, notify func(*watch.Report)) (*watcher, error) {
	ref, err := watch.Of(m)
	if errors.Is(err, watch.ErrNone) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	w := &watcher{ref: ref, window: window, log: log, notify: notify, enc: map[*batcher]*watch.Encoder{}}
	parts := min(max(watchBytes/max(ref.MonitorBytes(), 1)-1, leastParts), watchParts)
	w.each = max(window/parts, watch.LeastRows)
	for range parts {
		w.ring = append(w.ring, ref.Monitor())
	}
	for _, x := range []*dense.Matrix[float64]{&w.x, &w.backX} {
		*x = dense.New[float64](watchBlock, ref.Width())
	}
	for _, y := range []*dense.Matrix[float64]{&w.y, &w.backY} {
		*y = dense.New[float64](watchBlock, max(ref.Outputs(), 1))
	}
	if w.feedback, err = m.Evaluation(); err != nil {
		return nil, err
	}
	w.predictor, err = machine.NewPredictor[float64](m)
	return w, err
}

// add takes the rows of a call with the outputs of the model. It belongs to a batcher.
func (w *watcher) add(b *batcher, in *data.Block, y dense.Matrix[float64]) {
	if w.spent.Load() > int64(watchFree)+int64(watchShare*float64(w.served.Load())) || !w.mu.TryLock() {
		return
	}
	defer w.mu.Unlock()
	began := time.Now()
	defer func() { w.spent.Add(int64(time.Since(began))) }()
	enc := w.enc[b]
	if enc == nil {
		var err error
		if enc, err = w.ref.Encoder(b.columns); err != nil {
			return
		}
		w.enc[b] = enc
	}
	x, err := enc.Encode(in, func(int) string { return "" })
	if err != nil { // the model has predicted the row, so it can be encoded: only infinite values differ
		return
	}
	for i := range x.Rows {
		if w.pending == watchBlock {
			if w.summing {
				return // these rows are left out
			}
			w.flush()
		}
		copy(w.x.Row(w.pending), x.Row(i))
		if y.Cols == w.y.Cols {
			copy(w.y.Row(w.pending), y.Row(i))
		}
		w.pending++
	}
	if w.pending == watchBlock && !w.summing {
		w.flush()
	}
}

// flush gives the rows that wait to a goroutine. The caller holds mu.
func (w *watcher) flush() {
	w.x, w.backX, w.y, w.backY = w.backX, w.x, w.backY, w.y
	rows := w.pending
	w.pending, w.summing = 0, true
	go func() {
		began := time.Now()
		// A panic here would end the process, not a request.
		if p := par.Catch(func() { w.sum(w.backX.RowRange(0, rows), w.backY.RowRange(0, rows)) }); p != nil {
			w.log.Error("rows were not watched", "error", p)
		}
		w.spent.Add(int64(time.Since(began)))
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.summing = false; w.pending == watchBlock {
			w.flush() // they came meanwhile
		}
	}()
}

// sum adds rows to the newest monitor and reads the window when it is full.
func (w *watcher) sum(x, y dense.Matrix[float64]) {
	w.state.Lock()
	defer w.state.Unlock()
	if w.ref.Outputs() == 0 {
		y = dense.Matrix[float64]{}
	}
	m := w.ring[w.at]
	if err := m.Add(x, y); err != nil {
		w.log.Warn("rows were not watched", "error", err)
		return
	}
	w.total += int64(x.Rows)
	if int(m.Rows()) < w.each {
		return
	}
	all := w.ref.Monitor()
	for _, m := range w.ring {
		if err := all.Merge(m); err != nil {
			w.log.Warn("rows were not watched", "error", err)
			return
		}
	}
	report, err := w.sequence.Report(all)
	if err != nil {
		w.log.Warn("rows were not watched", "error", err)
		return
	}
	if was := w.report != nil && w.report.Changed; was != report.Changed {
		level := slog.LevelWarn
		if !report.Changed {
			level = slog.LevelInfo
		}
		w.log.Log(context.Background(), level, "watch", "changed", report.Changed, "p", report.P, "rows", report.Rows,
			"text", report.Text)
	}
	w.report = report
	w.notify(report)
	w.at = (w.at + 1) % len(w.ring)
	w.ring[w.at].Reset()
}

// watching is the answer of /watch.
type watching struct {
	Why    string `json:"why,omitempty"` // why rows are not watched
	Window int    `json:"window"`        // rows of the window
	Rows   int64  `json:"rows"`          // rows watched since the model was loaded
	Looks  int    `json:"looks"`         // reports so far; the next one comes after
	Next   int    `json:"next"`          // this many further rows
	// Report is that of the last look. Its level is corrected for the number of looks.
	Report *watch.Report `json:"report"`
	// Feedback compares the scores on rows with targets with those of the fit.
	Feedback     []watch.Observed `json:"feedback,omitempty"`
	FeedbackRows int64            `json:"feedback_rows,omitempty"`
}

func (w *watcher) answer() watching {
	w.state.Lock()
	defer w.state.Unlock()
	a := watching{Window: w.window, Rows: w.total, Looks: w.sequence.Looks, Report: w.report,
		Next: max(0, w.each-int(w.ring[w.at].Rows())), FeedbackRows: w.feedback.Len()}
	if a.FeedbackRows > 0 {
		a.Feedback = w.ref.Observed(w.feedback.Scores())
	}
	return a
}

// notWatched says why a model without a watcher has none.
func (s *Server) notWatched() string {
	if s.o.Watch < 0 {
		return "the server was started without a window of rows to watch"
	}
	return "the model has no reference to compare rows with: fit it again"
}

func (s *Server) serveWatch(w http.ResponseWriter, _ *http.Request) *fault {
	d := s.current.Load()
	if d.watch == nil {
		return writeJSON(w, d, watching{Why: s.notWatched()})
	}
	return writeJSON(w, d, d.watch.answer())
}

func writeJSON(w http.ResponseWriter, d *loaded, v any) *fault {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return internal(err)
	}
	w.Header().Set("Content-Type", typeJSON)
	w.Header().Set(modelHeader, d.sha256)
	w.Write(append(b, '\n'))
	return nil
}

// serveFeedback takes rows with their targets and compares the scores of the model with those of the fit.
func (s *Server) serveFeedback(w http.ResponseWriter, r *http.Request) *fault {
	d := s.current.Load()
	if d.watch == nil {
		return problem(http.StatusNotFound, "not_watched", "%s", s.notWatched())
	}
	if d.model.Task == machine.Unsupervised {
		return problem(http.StatusBadRequest, "no_target", "a %s has no target", d.model.Task)
	}
	content, p := contentType(r.Header.Get("Content-Type"))
	if p != nil {
		return p
	}
	body, e := s.http.ReadBody(w, r, s.o.Limits.Body, s.memory)
	if e != nil {
		return bodyFault(e)
	}
	defer body.Free()
	k, p := s.enter(body)
	if p != nil {
		return p
	}
	defer s.leave(k)
	header := true
	o := data.Options{Format: data.CSV, Header: &header, Encoding: "utf-8"}
	switch content {
	case typeTSV:
		o.Delimiter = '\t'
	case typeJSON, typeNDJSON:
		o.Format, o.Header = data.NDJSON, nil
	}
	if bytes.HasPrefix(body.Bytes, gzipMagic) {
		return problem(http.StatusUnsupportedMediaType, "unsupported_media_type",
			"the body is compressed: send Content-Encoding: gzip with it")
	}
	src, err := text.OpenBytes("request", body.Bytes, o)
	if err != nil {
		return problemOf(badTable(err), 0)
	}
	rows, err := machine.ModelRows(src, d.model, true, nil)
	if err != nil {
		return problemOf(err, 0)
	}
	return d.watch.learn(w, d, rows, s.o.Limits.Rows)
}

// learn evaluates rows with targets. Nothing is counted unless all rows are good.
func (w *watcher) learn(to http.ResponseWriter, d *loaded, rows machine.Rows, most int) *fault {
	part, err := d.model.Evaluation()
	if err != nil {
		return internal(err)
	}
	kind, err := d.model.Kind.Info()
	if err != nil {
		return internal(err)
	}
	var ws machine.Workspace[float64]
	ws.Workers = 1
	tooMany := tooLarge("more than %d rows", most)
	err = rows.Each(d.s.o.Limits.Batch, func(x, y dense.Matrix[float64]) error {
		if part.Len()+int64(x.Rows) > int64(most) {
			return tooMany
		}
		pred, variance := dense.New[float64](x.Rows, d.model.Outputs), dense.Matrix[float64]{}
		if err := w.predictor.Predict(pred, x, &ws); err != nil {
			return err
		}
		if kind.Bayesian {
			variance = dense.New[float64](x.Rows, d.model.Outputs)
			if err := w.predictor.Variance(variance, x, &ws); err != nil {
				return err
			}
		}
		return part.Add(y, pred, variance)
	})
	if errors.Is(err, tooMany) {
		return tooMany
	} else if err != nil {
		return problemOf(err, 0)
	}
	w.state.Lock()
	err = w.feedback.Merge(part)
	w.state.Unlock()
	if err != nil {
		return internal(err)
	}
	return writeJSON(to, d, w.answer())
}

// watchOf says what the page shows of the watcher.
func (d *loaded) watchOf() string {
	if d.watch == nil {
		return ""
	}
	a := d.watch.answer()
	if a.Report == nil {
		return ""
	}
	return a.Report.Text
}
