package serving

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/text"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/machine"
	"github.com/randfeat/randfeat/machine/serve"
)

// SIGHUP reads the token file again; one that is empty or gone leaves the old token.
func TestReloadToken(t *testing.T) {
	dir := t.TempDir()
	f := serveFlags{tokenFile: filepath.Join(dir, "token")}
	put := func(text string) {
		t.Helper()
		if err := os.WriteFile(f.tokenFile, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("first\n")
	src, err := text.OpenBytes("rows.csv", []byte("a,y\n0,1\n1,3\n2,2\n"), data.Options{})
	if err != nil {
		t.Fatal(err)
	}
	schema, _, err := data.Learn(src, data.LearnOptions{Targets: []string{"y"}, Task: data.Regression})
	if err != nil {
		t.Fatal(err)
	}
	rows, err := machine.TableRows(src, schema, true)
	if err != nil {
		t.Fatal(err)
	}
	r, err := machine.NewRidge(machine.Setup{Outputs: 1, Spec: randfeat.Spec{Family: family.Trig{}, Dim: 1, M: 4}})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.AddRows(rows); err != nil {
		t.Fatal(err)
	}
	m, err := r.Model(1)
	if err != nil {
		t.Fatal(err)
	}
	m.Schema = schema
	model := filepath.Join(dir, "model.rf")
	if err := m.Save(model); err != nil {
		t.Fatal(err)
	}
	s, err := serve.New(model, serve.Options{Token: "first"})
	if err != nil {
		t.Fatal(err)
	}
	status := func(token string) int {
		r := httptest.NewRequest(http.MethodGet, "/v1/model", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w.Code
	}
	var log strings.Builder
	logger := slog.New(slog.NewTextHandler(&log, nil))
	put("second\n")
	f.reloadToken(s, logger)
	if status("first") != 401 || status("second") != 200 {
		t.Error("the token of the file is not that of the server")
	}
	put(" \n")
	f.reloadToken(s, logger)
	if err := os.Remove(f.tokenFile); err != nil {
		t.Fatal(err)
	}
	f.reloadToken(s, logger)
	if status("second") != 200 || strings.Count(log.String(), "the old one stays") != 2 ||
		strings.Contains(log.String(), "second") {
		t.Errorf("a token file that cannot be used:\n%s", log.String())
	}
}
