package serve

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics are those of one server, in a registry of their own: two servers in a process do not meet.
type metrics struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	inFlight prometheus.Gauge
	rows     prometheus.Counter
	rejected *prometheus.CounterVec
	panics   prometheus.Counter
	reloads  *prometheus.CounterVec
	batch    prometheus.Histogram
	model    *prometheus.GaugeVec
	loaded   prometheus.Gauge
}

func newMetrics() *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "randfeat_http_requests_total",
			Help: "Requests answered, by path and status."}, []string{"path", "code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "randfeat_http_request_seconds",
			Help:    "Time from the header of a request to the end of its answer.",
			Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}}, []string{"path"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{Name: "randfeat_predict_in_flight",
			Help: "Requests for predictions being read, waiting or in work."}),
		rows: prometheus.NewCounter(prometheus.CounterOpts{Name: "randfeat_predict_rows_total", Help: "Rows predicted."}),
		rejected: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "randfeat_rejected_total",
			Help: "Requests answered with an error, by its code."}, []string{"reason"}),
		panics: prometheus.NewCounter(prometheus.CounterOpts{Name: "randfeat_panics_total", Help: "Bugs: see the log."}),
		reloads: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "randfeat_reloads_total",
			Help: "Reloads of the model file: new, same (the file has not changed) or failed (the old model stays)."}, []string{"result"}),
		batch: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "randfeat_batch_rows",
			Help: "Rows predicted in one call.", Buckets: prometheus.ExponentialBuckets(1, 2, 10)}),
		model: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "randfeat_model_info", Help: "The model that answers."},
			[]string{"sha256", "kind", "task"}),
		loaded: prometheus.NewGauge(prometheus.GaugeOpts{Name: "randfeat_model_loaded_timestamp_seconds",
			Help: "When the model was loaded."}),
	}
	m.registry.MustRegister(m.requests, m.seconds, m.inFlight, m.rows, m.rejected, m.panics, m.reloads, m.batch, m.model, m.loaded,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for _, r := range []string{"new", "same", "failed"} {
		m.reloads.WithLabelValues(r)
	}
	return m
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

func (m *metrics) answered(path string, status int, took time.Duration) {
	m.requests.WithLabelValues(path, strconv.Itoa(status)).Inc()
	m.seconds.WithLabelValues(path).Observe(took.Seconds())
}

func (m *metrics) use(l *loaded) {
	m.model.Reset()
	m.model.WithLabelValues(l.sha256, string(l.model.Kind), string(l.model.Task)).Set(1)
	m.loaded.Set(float64(l.at.UnixMilli()) / 1e3)
}
