package serve

import (
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/machine"
)

var update = flag.Bool("update", false, "write the list of endpoints into docs/machines.md")

// docs/machines.md lists the endpoints.
func TestEndpointsAreDocumented(t *testing.T) {
	const file = "../../docs/machines.md"
	var want string
	for _, e := range Endpoints() {
		want += "| `" + strings.Join(e.Methods, "`, `") + "` | `" + e.Path + "` | " + e.Summary + " |\n"
	}
	text := string(readFile(t, file))
	table := regexp.MustCompile(`(?m)(^\| .(GET|POST|PUT|DELETE|PATCH)\b.*\n)+`)
	if *update {
		check(t, os.WriteFile(file, []byte(table.ReplaceAllLiteralString(text, want)), 0o644))
		return
	}
	if got := table.FindString(text); got != want {
		t.Errorf("docs/machines.md, section Serving, does not list the endpoints of routes.go. Write these lines into its "+
			"table, or run it with -update:\n%s", want)
	}
}

// Unknown paths are told which there are, and every endpoint knows its methods.
func TestEndpoints(t *testing.T) {
	s := serverOf(t, fitted(t, machine.KindRidge, 1), Options{})
	w := newRecorder()
	s.ServeHTTP(w, newGet("/v2"))
	for _, e := range Endpoints() {
		if !strings.Contains(w.Body.String(), e.Path) || w.Code != 404 {
			t.Errorf("%d %s does not name %s", w.Code, w.Body, e.Path)
		}
		r := newGet(e.Path)
		r.Method = "PATCH"
		w := newRecorder()
		s.ServeHTTP(w, r)
		if allowed := w.Header().Get("Allow"); w.Code != 405 || allowed != strings.Join(e.Methods, ", ") {
			t.Errorf("PATCH %s: %d, allowed %s", e.Path, w.Code, allowed)
		}
	}
}
