package datasets

import (
	"encoding/json"
	"flag"
	"os"
	"reflect"
	"testing"

	"github.com/randfeat/randfeat/internal/packed"
)

var update = flag.Bool("update", false, "write list.json.gz")

// The embedded list is list.json.
func TestListIsCompressed(t *testing.T) {
	b, err := os.ReadFile("list.json")
	if err != nil {
		t.Fatal(err)
	}
	var want, got any
	if err := json.Unmarshal(b, &want); err != nil {
		t.Fatal(err)
	}
	if *update {
		if listed, err = packed.Encode(want); err == nil {
			err = os.WriteFile("list.json.gz", listed, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := packed.Decode(&got, listed); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("list.json.gz is not list.json (%v): run go test ./internal/datasets -run TestListIsCompressed -update", err)
	}
}
