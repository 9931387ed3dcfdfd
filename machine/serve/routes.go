package serve

import (
	"net/http"
	"strings"

	"github.com/randfeat/randfeat/internal/figure"
)

// endpoint is a path that a [Server] answers.
type endpoint struct {
	Methods []string
	Path    string
	Summary string // what it answers
}

// route is an entry of the table of endpoints. The server, the answer to unknown paths, the OpenAPI document and, by
// [Endpoints], the help of the command derive from the table; a test holds docs/machines.md against it.
type route struct {
	endpoint // without a summary it is a part of the page and not listed
	answer   handler
	// open says that no token is needed; nil: one is.
	open func(o *Options) bool
	// operation describes the answers for OpenAPI; nil: the endpoint is for people and not in the document. Summary and
	// token are added.
	operation func(d *loaded) node
}

var (
	reads = []string{http.MethodGet}
	posts = []string{http.MethodPost}
	forms = []string{http.MethodGet, http.MethodPost}
)

func (s *Server) routes() []route {
	always := func(*Options) bool { return true }
	return []route{
		{endpoint: endpoint{posts, "/v1/predict", "predictions for rows as JSON, CSV, TSV or NDJSON"},
			answer: s.servePredict, operation: (*loaded).predictOperation},
		{endpoint: endpoint{reads, "/v1/model", "the model and the columns it reads"},
			answer: s.serveModel, operation: func(*loaded) node {
				return getOperation(jsonContent("the model", node{"type": "object",
					"required": []string{"sha256", "kind", "task", "schema", "answers", "options"}}))
			}},
		{endpoint: endpoint{reads, "/watch", "whether the newest rows are still like those of the fit"},
			answer: s.serveWatch, operation: func(*loaded) node {
				return getOperation(jsonContent("the last report", node{"type": "object",
					"required": []string{"window", "rows", "looks", "next", "report"}}))
			}},
		{endpoint: endpoint{posts, "/feedback",
			"takes rows with their targets and compares the scores with those of the fit"},
			answer: s.serveFeedback},
		{endpoint: endpoint{reads, "/openapi.json", "the OpenAPI description of this interface"},
			answer: s.serveOpenAPI, operation: func(*loaded) node {
				return getOperation(jsonContent("OpenAPI 3.1", node{"type": "object",
					"required": []string{"openapi", "info", "paths"}}))
			}},
		{endpoint: endpoint{reads, "/healthz", "200 while the process lives"},
			answer: s.health, open: always, operation: func(*loaded) node {
				return getOperation(textContent("it does"))
			}},
		{endpoint: endpoint{reads, "/readyz", "200 while requests are accepted, 503 once it shuts down"},
			answer: s.readiness, open: always, operation: func(*loaded) node {
				return getOperation(textContent("it does"), "503")
			}},
		{endpoint: endpoint{reads, "/metrics", "measurements for Prometheus"},
			answer: s.serveMetrics, open: func(o *Options) bool { return o.OpenMetrics },
			operation: func(*loaded) node {
				return getOperation(textContent("Prometheus text format, version 0.0.4"))
			}},
		{endpoint: endpoint{forms, "/", "a page with a field for every column, predictions beside the rows, and the " +
			"scores of the fit; it works without JavaScript"}, answer: s.servePage},
		{endpoint: endpoint{Methods: reads, Path: "/style.css"},
			answer: asset(figure.Page+styleSheet, "text/css; charset=utf-8")},
		{endpoint: endpoint{Methods: reads, Path: "/script.js"},
			answer: asset(scriptFile, "text/javascript; charset=utf-8")},
	}
}

// Endpoints lists the paths that a server answers.
func Endpoints() []endpoint {
	var list []endpoint
	for _, r := range new(Server).routes() {
		if r.Summary != "" {
			list = append(list, r.endpoint)
		}
	}
	return list
}

// mux passes requests to their routes. Other paths get the list.
func (s *Server) newMux() *http.ServeMux {
	mux := http.NewServeMux()
	for _, r := range s.routes() {
		pattern := r.Path
		if pattern == "/" {
			pattern = "/{$}" // only itself
		}
		open := r.open != nil && r.open(&s.o)
		mux.HandleFunc(pattern, func(w http.ResponseWriter, q *http.Request) {
			s.answer(w, q, r.Path, open, func(w http.ResponseWriter, q *http.Request) *fault {
				if p := allow(w, q, r.Methods); p != nil {
					return p
				}
				return r.answer(w, q)
			})
		})
	}
	var paths []string
	for _, e := range Endpoints() {
		paths = append(paths, e.Path)
	}
	known := strings.Join(paths, ", ")
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.answer(w, r, "other", false, func(http.ResponseWriter, *http.Request) *fault {
			return problem(http.StatusNotFound, "not_found", "no such path: there are %s", known)
		})
	})
	return mux
}
