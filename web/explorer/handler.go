package explorer

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/randfeat/randfeat/web/explorer/internal/model"
)

// maxForm bounds a question with its files, at most two.
const maxForm = 2*model.MaxFile + 1<<20

// Handler serves the explorer for one person: the page, and the answers to its questions, which the library
// computes in this process instead of the browser. Cross-origin requests are refused.
func Handler() (http.Handler, error) {
	html, err := page(part("remote.js"), "", " connect-src 'self';")
	if err != nil {
		return nil, err
	}
	h := &handler{fast: model.New(), slow: model.New()}
	mux := http.NewServeMux()
	mux.Handle("GET /{$}", PageHandler(html))
	mux.HandleFunc("POST /call/{name}", h.call)
	return http.NewCrossOriginProtection().Handler(mux), nil
}

// PageHandler serves one page and nothing else.
func PageHandler(page []byte) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Content-Security-Policy", "frame-ancestors 'none'") // the page itself has the rest
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		w.Write(page)
	})
	return mux
}

// handler has one model for each of the page's two workers, so that sliders move while the advisor works. A
// Model belongs to one goroutine at a time: the mutexes ensure it.
type handler struct {
	fastMu, slowMu sync.Mutex
	fast, slow     *model.Model
}

// call answers one question. Progress needs a stream, so the answer is a line of its own, and so is an error of
// the model.
func (h *handler) call(w http.ResponseWriter, r *http.Request) {
	request, files, err := form(w, r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	mu, m := &h.fastMu, h.fast
	name := r.PathValue("name")
	if name == "measure" || name == "advise" {
		mu, m = &h.slowMu, h.slow
	}
	mu.Lock()
	defer mu.Unlock()
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("Cache-Control", "no-store")
	out, flush := json.NewEncoder(w), http.NewResponseController(w)
	_ = flush.SetWriteDeadline(time.Time{}) // the server's limit is meant for pages
	var told time.Time
	m.Progress = func(stage string, done, total int) {
		if now := time.Now(); now.Sub(told) > 100*time.Millisecond {
			told = now
			_ = out.Encode(map[string]any{"progress": map[string]any{"stage": stage, "done": done, "total": total}})
			_ = flush.Flush()
		}
	}
	answer, err := m.Call(r.Context(), name, request, files...)
	switch {
	case errors.Is(err, context.Canceled): // nobody listens any more
	case err != nil:
		_ = out.Encode(map[string]string{"error": err.Error()})
	default:
		_ = out.Encode(map[string]json.RawMessage{"answer": answer})
	}
}

// form reads a question: its JSON first, then files.
func form(w http.ResponseWriter, r *http.Request) (request []byte, files [][]byte, err error) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	parts, err := r.MultipartReader()
	if err != nil {
		return nil, nil, err
	}
	for {
		p, err := parts.NextPart()
		if err == io.EOF {
			return request, files, nil
		}
		if err != nil {
			return nil, nil, err
		}
		b, err := io.ReadAll(p)
		if err != nil {
			return nil, nil, err
		}
		if p.FormName() == "request" {
			request = b
		} else {
			files = append(files, b)
		}
	}
}
