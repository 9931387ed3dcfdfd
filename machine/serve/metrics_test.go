package serve

import (
	"bytes"
	"io"
	"maps"
	"math"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/randfeat/randfeat/machine"
)

// scrape reads the metrics as Prometheus does.
func scrape(t *testing.T, text io.Reader) map[string]*dto.MetricFamily {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(text)
	check(t, err)
	return families
}

func scrapeServer(t *testing.T, s *Server) map[string]*dto.MetricFamily {
	t.Helper()
	w := newRecorder()
	s.ServeHTTP(w, newGet("/metrics"))
	if kind := w.Header().Get("Content-Type"); w.Code != http.StatusOK ||
		kind != "text/plain; version=0.0.4; charset=utf-8" {
		t.Fatalf("%d %s", w.Code, kind)
	}
	return scrape(t, w.Body)
}

// metricOf is the one with these labels, as name, value, name, value…
func metricOf(t *testing.T, f *dto.MetricFamily, labels ...string) *dto.Metric {
	t.Helper()
	for _, m := range f.GetMetric() {
		var got []string
		for _, l := range m.GetLabel() {
			got = append(got, l.GetName(), l.GetValue())
		}
		if slices.Equal(got, labels) {
			return m
		}
	}
	t.Fatalf("no metric %s %v in %v", f.GetName(), labels, f)
	return nil
}

// What the server counts can be read by Prometheus, under names and types that dashboards rely on, and is right.
func TestMetrics(t *testing.T) {
	s := serverOf(t, fitted(t, machine.KindRidge, 1), Options{})
	post(s, "/v1/predict", "text/csv", string(csvOf(table(3, 5, false))))
	post(s, "/v1/predict", "text/csv", "a\n1\n")
	families := scrapeServer(t, s)
	for _, c := range []struct {
		want   float64
		kind   dto.MetricType
		name   string
		labels []string
	}{
		{1, dto.MetricType_COUNTER, "randfeat_http_requests_total", []string{"code", "200", "path", "/v1/predict"}},
		{1, dto.MetricType_COUNTER, "randfeat_http_requests_total", []string{"code", "400", "path", "/v1/predict"}},
		{2, dto.MetricType_HISTOGRAM, "randfeat_http_request_seconds", []string{"path", "/v1/predict"}},
		{5, dto.MetricType_COUNTER, "randfeat_predict_rows_total", nil},
		{0, dto.MetricType_GAUGE, "randfeat_predict_in_flight", nil},
		{1, dto.MetricType_COUNTER, "randfeat_rejected_total", []string{"reason", "bad_columns"}},
		{0, dto.MetricType_COUNTER, "randfeat_panics_total", nil},
		{0, dto.MetricType_COUNTER, "randfeat_reloads_total", []string{"result", "failed"}},
		{0, dto.MetricType_COUNTER, "randfeat_reloads_total", []string{"result", "new"}},
		{0, dto.MetricType_COUNTER, "randfeat_reloads_total", []string{"result", "same"}},
		{1, dto.MetricType_HISTOGRAM, "randfeat_batch_rows", nil},
		{1, dto.MetricType_GAUGE, "randfeat_model_info", []string{"kind", "ridge", "sha256", s.SHA256(), "task",
			"regression"}},
	} {
		f := families[c.name]
		if f == nil || f.GetType() != c.kind || f.GetHelp() == "" {
			t.Errorf("%s: %v, want a %v with a meaning", c.name, f, c.kind)
			continue
		}
		m := metricOf(t, f, c.labels...)
		got := m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		if got != c.want {
			t.Errorf("%s %v = %v, want %v", c.name, c.labels, got, c.want)
		}
	}
	age := float64(time.Now().UnixMilli())/1e3 - metricOf(t,
		families["randfeat_model_loaded_timestamp_seconds"]).GetGauge().GetValue()
	if age < 0 || age > 600 {
		t.Errorf("the model was loaded %v s ago", age)
	}
	// Of the process: what dashboards of Go programs show, everywhere.
	for name, kind := range map[string]dto.MetricType{
		"go_goroutines": dto.MetricType_GAUGE, "go_threads": dto.MetricType_GAUGE, "go_info": dto.MetricType_GAUGE,
		"go_memstats_alloc_bytes": dto.MetricType_GAUGE, "go_memstats_alloc_bytes_total": dto.MetricType_COUNTER,
		"go_gc_duration_seconds": dto.MetricType_SUMMARY,
	} {
		if f := families[name]; f.GetType() != kind || len(f.GetMetric()) == 0 {
			t.Errorf("%s: %v, want a %v", name, f, kind)
		}
	}
}

// Histograms have the cumulative buckets that histogram_quantile needs: of each bound, all that is at most it.
func TestHistogram(t *testing.T) {
	m := newMetrics()
	for _, v := range []float64{0, 1, 1.5, 2, 3, 512, 513, math.MaxFloat64} {
		m.batch.with().observe(rowsBuckets, v)
	}
	h := metricOf(t, scrape(t, bytes.NewReader(m.batch.append(nil)))["randfeat_batch_rows"]).GetHistogram()
	got := map[float64]uint64{}
	for _, b := range h.GetBucket() {
		got[b.GetUpperBound()] = b.GetCumulativeCount()
	}
	want := map[float64]uint64{1: 2, 2: 4, 4: 5, 8: 5, 16: 5, 32: 5, 64: 5, 128: 5, 256: 5, 512: 6, math.Inf(1): 8}
	if !reflect.DeepEqual(got, want) || h.GetSampleCount() != 8 || h.GetSampleSum() != math.MaxFloat64 {
		t.Errorf("buckets %v, want %v; count %d, sum %v", got, want, h.GetSampleCount(), h.GetSampleSum())
	}
	if !slices.IsSorted(secondsBuckets) || !slices.IsSorted(rowsBuckets) {
		t.Error("bounds must ascend")
	}
}

// Values of labels are free text.
func TestMetricLabels(t *testing.T) {
	odd := "a\"b\\c\nd{},=é"
	m := newMetrics()
	m.rejected.with(odd).add(2.5)
	f := scrape(t, bytes.NewReader(m.rejected.append(nil)))["randfeat_rejected_total"]
	if v := metricOf(t, f, "reason", odd).GetCounter().GetValue(); v != 2.5 {
		t.Errorf("%v", f)
	}
}

// A reload leaves one model.
func TestModelMetric(t *testing.T) {
	path := saved(t, fitted(t, machine.KindRidge, 1))
	s, err := New(path, Options{})
	check(t, err)
	first := s.SHA256()
	check(t, fitted(t, machine.KindRidge, 2).Save(path))
	check(t, s.Reload())
	families := scrapeServer(t, s)
	f := families["randfeat_model_info"]
	if s.SHA256() == first || len(f.GetMetric()) != 1 {
		t.Fatalf("%v", f)
	}
	metricOf(t, f, "kind", "ridge", "sha256", s.SHA256(), "task", "regression")
	if v := metricOf(t, families["randfeat_reloads_total"], "result", "new").GetCounter().GetValue(); v != 1 {
		t.Errorf("%v reloads", v)
	}
}

// Nothing is lost between goroutines, and what is read meanwhile is whole.
func TestMetricsTogether(t *testing.T) {
	m := newMetrics()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 500 {
				m.answered([]string{"/", "/v1/predict"}[i%2], 200+i%3, time.Duration(i)*time.Millisecond)
				m.inFlight.with().add(1)
				m.inFlight.with().add(-1)
				if i%100 == 0 {
					var b []byte
					for _, f := range m.all {
						b = f.append(b)
					}
					if n := strings.Count(string(b), "# TYPE "); n != len(m.all) {
						t.Errorf("%d families of %d", n, len(m.all))
					}
				}
			}
		})
	}
	wg.Wait()
	families := scrape(t, bytes.NewReader(append(m.requests.append(nil), m.seconds.append(nil)...)))
	total := 0.0
	for _, c := range families["randfeat_http_requests_total"].GetMetric() {
		total += c.GetCounter().GetValue()
	}
	h := metricOf(t, families["randfeat_http_request_seconds"], "path", "/").GetHistogram()
	if total != 4000 || h.GetSampleCount() != 2000 || len(slices.Collect(maps.Keys(families))) != 2 {
		t.Errorf("%v requests, %v", total, h)
	}
}
