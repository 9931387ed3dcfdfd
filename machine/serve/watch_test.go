package serve

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/text"
	"github.com/randfeat/randfeat/machine"
	"github.com/randfeat/randfeat/machine/watch"
)

// referenced is a model of 200 rows with their reference.
func referenced(t testing.TB, kind machine.Kind) *machine.Model {
	t.Helper()
	m := fitted(t, kind, 1)
	src, err := text.OpenBytes("rows.csv", csvOf(table(1, 200, kind == machine.KindLogistic)), data.Options{})
	check(t, err)
	r, err := watch.Model(src, m, watch.Options{})
	check(t, err)
	check(t, watch.Attach(m, r))
	return m
}

// asked returns the answer of /watch or /feedback.
func asked(t *testing.T, s *Server, r *http.Request) (a watching) {
	t.Helper()
	w := newRecorder()
	s.ServeHTTP(w, r)
	if w.Code != 200 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	check(t, json.Unmarshal(w.Body.Bytes(), &a))
	return a
}

// sent sends rows as CSV.
func sent(t *testing.T, s *Server, path string, rows []byte) (int, string) {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, path, bytes.NewReader(rows))
	r.Header.Set("Content-Type", "text/csv")
	w := newRecorder()
	s.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// until waits for the goroutine that sums rows.
func until(t *testing.T, s *Server, rows int64) (a watching) {
	t.Helper()
	for range 500 {
		if a = asked(t, s, newGet("/watch")); a.Rows >= rows {
			return a
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("%d rows were watched, want %d", a.Rows, rows)
	return a
}

// logged is a log that may be read while it is written.
type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// Rows of requests are compared with those of the fit; a change is logged once, and shown everywhere.
func TestWatch(t *testing.T) {
	var log logged
	s, err := newModel(referenced(t, machine.KindRidge), Options{Watch: 1280,
		Log: slog.New(slog.NewTextHandler(&log, nil))})
	check(t, err)
	send := func(seed uint64, change func(row []string)) {
		rows := table(seed, watchBlock, false)
		for _, r := range rows {
			if change != nil {
				change(r)
			}
		}
		if code, text := sent(t, s, "/v1/predict", csvOf(rows)); code != 200 {
			t.Fatalf("%d %s", code, text)
		}
	}
	if a := asked(t, s, newGet("/watch")); a.Rows != 0 || a.Report != nil || a.Window != 1280 || a.Next != 128 {
		t.Errorf("before any row: %+v", a)
	}
	rows := int64(0)
	for seed := range uint64(3) {
		send(10+seed, nil)
		rows += watchBlock
		if a := until(t, s, rows); a.Report == nil || a.Report.Changed || a.Looks != int(seed)+1 {
			t.Fatalf("the same kind of rows: %+v", a)
		}
	}
	for seed := range uint64(3) {
		send(20+seed, func(r []string) { r[3] = strings.Replace(r[3], "red", "crimson", 1) })
		rows += watchBlock
		until(t, s, rows)
	}
	a := until(t, s, rows)
	if !a.Report.Changed || a.Report.Columns[0].Name != "c" || len(a.Report.Predictions) != 1 {
		t.Errorf("a level renamed: %+v", a.Report)
	}
	if n := strings.Count(log.String(), "changed=true"); n != 1 {
		t.Errorf("%d lines of the log:\n%s", n, log.String())
	}
	for path, want := range map[string]string{"/metrics": "\nrandfeat_watch_changed 1\n",
		"/": "Newest rows: Changed:"} {
		w := newRecorder()
		s.ServeHTTP(w, newGet(path))
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s does not contain %q", path, want)
		}
	}
	// A row that is tried out on the page is not a row of a request.
	before := s.current.Load().watch.pending
	form := strings.NewReader("rows=id,a,b,c%0Ak1,1,2,red&answer=table")
	r := httptest.NewRequest(http.MethodPost, "/", form)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := newRecorder()
	s.ServeHTTP(w, r)
	if w.Code != 200 || s.current.Load().watch.pending != before {
		t.Errorf("the page: %d, %d rows wait, %d before", w.Code, s.current.Load().watch.pending, before)
	}
}

// Feedback compares scores; rows with an error change nothing.
func TestFeedback(t *testing.T) {
	m := referenced(t, machine.KindLogistic)
	m.History = &machine.History{Scores: []machine.Score{{Name: "accuracy", Value: .99, Low: .98, High: 1,
		Rows: 200}}}
	src, err := text.OpenBytes("rows.csv", csvOf(table(1, 200, true)), data.Options{})
	check(t, err)
	ref, err := watch.Model(src, m, watch.Options{})
	check(t, err)
	check(t, watch.Attach(m, ref))
	s, err := newModel(m, Options{})
	check(t, err)
	for _, bad := range []struct{ rows, want string }{
		{"id,a,b,c,y\nk,1,2,red,never\n", "class"}, {"id,a,b,c\nk,1,2,red\n", "y"}, {"a,b\n1,2\n", "missing"},
	} {
		if code, text := sent(t, s, "/feedback", []byte(bad.rows)); code != 400 || !strings.Contains(text, bad.want) {
			t.Errorf("%q: %d %s", bad.rows, code, text)
		}
	}
	for k := range int64(2) {
		code, text := sent(t, s, "/feedback", csvOf(table(30, 150, true)))
		var a watching
		if code != 200 || json.Unmarshal([]byte(text), &a) != nil || a.FeedbackRows != 150*(k+1) {
			t.Fatalf("%d %s", code, text)
		}
		if len(a.Feedback) != 1 || !a.Feedback[0].Changed || !strings.Contains(a.Feedback[0].Text, "worse than") {
			t.Errorf("random classes: %+v", a.Feedback)
		}
	}
}

// Without a reference, or with the window off, /watch says why.
func TestNotWatched(t *testing.T) {
	for _, c := range []struct {
		m    *machine.Model
		o    Options
		want string
	}{{fitted(t, machine.KindRidge, 1), Options{}, "no reference"},
		{referenced(t, machine.KindRidge), Options{Watch: -1}, "without a window"}} {
		s, err := newModel(c.m, c.o)
		check(t, err)
		if a := asked(t, s, newGet("/watch")); !strings.Contains(a.Why, c.want) {
			t.Errorf("%+v, want %q", a, c.want)
		}
		if code, text := sent(t, s, "/feedback", csvOf(table(1, 5, false))); code != 404 ||
			!strings.Contains(text, c.want) {
			t.Errorf("%d %s, want %q", code, text, c.want)
		}
	}
}

// A window needs little memory, however wide the table.
func TestWindowBytes(t *testing.T) {
	s, err := newModel(referenced(t, machine.KindRidge), Options{})
	check(t, err)
	w := s.current.Load().watch
	if n := (len(w.ring) + 1) * w.ref.MonitorBytes(); n > 2<<20 || len(w.ring) != watchParts || w.each != 1000 {
		t.Error(fmt.Sprint(n, " bytes in ", len(w.ring), " parts of ", w.each))
	}
}
