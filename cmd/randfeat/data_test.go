package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/cmd/randfeat/internal/tables"
	"github.com/randfeat/randfeat/internal/datasets"
)

func TestDataList(t *testing.T) {
	o := ok(t, "data", "list")
	for _, s := range datasets.List() {
		if !strings.Contains(o.stdout, s.Name) {
			t.Errorf("data list does not show %s", s.Name)
		}
	}
	list := objects[tables.DataSet](t, ok(t, "data", "list", "--json", "wine", "ptb").stdout)
	if len(list) != 2 || list[0].Licence == "" || len(list[0].Files[0].SHA256) != 64 || !list[0].Fetches ||
		list[1].Fetches || list[1].Files[0].Why == "" {
		t.Errorf("data list --json: %+v", list)
	}
	if o := ok(t, "data", "list", "mnist"); !strings.Contains(o.stdout, "CC BY-SA 3.0") ||
		!strings.Contains(o.stdout, "train-images-idx3-ubyte.gz") {
		t.Errorf("data list mnist: %s", o.stdout)
	}
	fails(t, exitMisuse, "did you mean wine", "data", "list", "wime")
}

// A folder is filled from another by HTTP, and checked.
func TestDataFetchAndVerify(t *testing.T) {
	atHand := os.Getenv(datasets.Variable)
	t.Setenv(datasets.Variable, "")
	fails(t, exitMisuse, "--data", "data", "verify")
	fails(t, exitMisuse, "--data", "data", "fetch", "--all")
	_, file, err := datasets.Lookup("wine/wine.data")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	fails(t, exitMisuse, "--all", "data", "fetch", "--data", dir)
	fails(t, exitMisuse, "exclude", "data", "fetch", "--all", "wine", "--data", dir)
	fails(t, exitFailed, "does not exist", "data", "verify", "--data", filepath.Join(dir, "none"))
	o := call(t, "", "data", "verify", "wine", "ptb", "--data", dir, "--json")
	found := objects[tables.DataFile](t, o.stdout)
	if o.code != exitFailed || len(found) != 4 || found[0].State != datasets.Missing ||
		found[0].Reason != "randfeat data fetch wine" || !strings.Contains(found[1].Reason, "cannot be fetched") {
		t.Errorf("an empty folder: %d %+v", o.code, found)
	}
	o = call(t, "", "data", "fetch", "ptb", "--data", dir)
	if o.code != exitFailed || !strings.Contains(o.stdout, "Linguistic Data Consortium") {
		t.Errorf("a set without a source: %+v", o)
	}
	served := t.TempDir()
	server := httptest.NewServer(http.FileServer(http.Dir(served)))
	defer server.Close()
	o = call(t, "", "data", "fetch", "wine", "--data", dir, "--from", server.URL)
	if o.code != exitFailed || !strings.Contains(o.stdout, "404") {
		t.Errorf("nothing there: %+v", o)
	}
	if err := os.Mkdir(filepath.Join(served, "wine"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file.In(served), []byte("1,2,3\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	o = call(t, "", "data", "fetch", "wine", "--data", dir, "--from", server.URL)
	if o.code != exitFailed || !strings.Contains(o.stdout, "the checksum is wrong") {
		t.Errorf("another file: %+v", o)
	}
	if atHand == "" {
		return
	}
	content, err := os.ReadFile(file.In(atHand))
	if err != nil {
		t.Skip("the wine data are not at hand")
	}
	if err := os.WriteFile(file.In(served), content, 0o666); err != nil {
		t.Fatal(err)
	}
	found = objects[tables.DataFile](t, ok(t, "data", "fetch", "wine", "--data", dir, "--from", server.URL,
		"--json").stdout)
	if len(found) != 1 || found[0].State != datasets.OK || found[0].Bytes != file.Bytes {
		t.Errorf("fetch: %+v", found)
	}
	if o := ok(t, "data", "verify", "wine", "--data", dir); !strings.HasPrefix(o.stdout, "ok") {
		t.Errorf("verify: %s", o.stdout)
	}
}
