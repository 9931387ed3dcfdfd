package tables

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/randfeat/randfeat/cmd/randfeat/internal/cli"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/text"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/machine"
	"github.com/randfeat/randfeat/machine/tabular"
)

// Every choice of the library has its flag.
func TestFitOptions(t *testing.T) {
	parse := func(args ...string) (tabular.Options, error) {
		var f fitFlags
		cmd := &cobra.Command{}
		f.add(cmd)
		if err := cmd.ParseFlags(args); err != nil {
			t.Fatal(err)
		}
		return f.options(cmd)
	}
	got, err := parse(strings.Fields(`--target y --target z --task regression --id key --skip s --numeric n --categorical c --max-levels 9 --weight w --group g --keep g
		--model smoother --family {"name":"oprf","a":-0.2} --coupling simplex --scaling robust --loss margins --bandwidth 1.5 --features 100 --seed 3 --folds 4
		--encode c=all --compare --interval-by v --sample 500 --float32 --quick --block 64 --checkpoint ck --checkpoint-every 5s`)...)
	if err != nil {
		t.Fatal(err)
	}
	want := tabular.Options{
		Learn: data.LearnOptions{Targets: []string{"y", "z"}, Task: data.Regression, IDs: []string{"key"},
			Skip: []string{"s"}, Numeric: []string{"n"},
			Categorical: []string{"c"}, MaxLevels: 9},
		Marks: data.MarkColumns{Weight: "w", Group: "g"}, Keep: []string{"g"},
		Kind: machine.KindSmoother, Family: family.OPRF{A: -0.2}, Coupling: coupling.Simplex{},
		Bandwidth: 1.5, Scaling: "robust", Loss: "margins",
		Features: 100, Seed: 3, Folds: 4, Code: map[string]string{"c": "all"}, Compare: true, IntervalBy: "v",
		Sample: 500, Float32: true, Block: 64, Quick: true, Checkpoint: "ck", CheckpointEvery: 5 * time.Second,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("options\n%+v\nwant\n%+v", got, want)
	}
	if got, err = parse("--map", "exact"); err != nil || got.Map != tabular.MapExact {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err = parse("--kernel", "laplace"); err != nil || got.Kernel != "laplace" {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err = parse("--time", "day", "--horizon", "7"); err != nil || got.Marks.Time != "day" || got.Horizon != 7 {
		t.Errorf("%+v, %v", got, err)
	}
	for _, args := range []string{"--group a --time b", "--map some", "--scaling some", "--map exact --features 64",
		"--map exact --model gp"} {
		if _, err = parse(strings.Fields(args)...); err == nil {
			t.Errorf("%s is accepted", args)
		}
	}
	if got, err = parse("--lambda", "0.5", "--budget", "300"); err != nil || got.Lambda != 0.5 || got.Budget != 300 ||
		got.Seed != cli.DefaultSeed {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err = parse("--budget", "300,2GB"); err != nil || got.Budget != 300 || got.Memory != 2e9 {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err = parse("--budget", "1.5 GiB", "--map", "exact"); err != nil || got.Memory != 3<<29 {
		t.Errorf("%+v, %v", got, err)
	}
	for _, content := range []string{"0", "-1", "1.5", "2GBB", "GB", "1GB,2GB", "3,4", "2,", "1e30GB", "NaN"} {
		if _, err = parse("--budget", content); err == nil {
			t.Errorf("a budget of %q is accepted", content)
		}
	}
	// What the flags cannot set: a schema, a progress bar, workers, and weights, which need the classes.
	set := reflect.ValueOf(want)
	for i := range set.NumField() {
		name := set.Type().Field(i).Name
		if set.Field(i).IsZero() && !slices.Contains([]string{"Lambda", "Budget", "Memory", "Schema", "Progress",
			"Warn",
			"ClassWeights",
			"Map", "Kernel", "Horizon", "Workers"},
			name) {
			t.Errorf("no flag sets %s of the options", name)
		}
	}
}

// Weights of classes are in the order of the schema, whatever the order of the flag.
func TestClassWeights(t *testing.T) {
	content := "x,y\n" + strings.Repeat("1,a\n2,b\n3,b\n4,c\n5,b\n", 4)
	for _, c := range []struct {
		flag string
		want []float64
	}{
		{"balanced", []float64{20.0 / (3 * 4), 20.0 / (3 * 12), 20.0 / (3 * 4)}},
		{`{"c": 2, "a": 0.5}`, []float64{0.5, 1, 2}},
	} {
		src, err := text.OpenBytes("t.csv", []byte(content), data.Options{})
		if err != nil {
			t.Fatal(err)
		}
		f := fitFlags{classWeight: c.flag}
		o := tabular.Options{Learn: data.LearnOptions{Targets: []string{"y"}}}
		if _, err := f.weigh(context.Background(), src, &o); err != nil || !slices.Equal(o.ClassWeights, c.want) ||
			o.Schema != nil { // of all rows: folds learn columns of their own
			t.Errorf("%s: %v, %v, want %v", c.flag, o.ClassWeights, err, c.want)
		}
	}
}

// An interrupted fit says whether the same command goes on.
func TestFitExplain(t *testing.T) {
	checkpoint := filepath.Join(t.TempDir(), "ck")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	f := fitFlags{checkpoint: checkpoint}
	if err := f.explain(ctx, context.Canceled); err == nil || err.Error() != "interrupted: no model was written yet" {
		t.Errorf("%v", err)
	}
	if err := os.WriteFile(checkpoint, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := f.explain(ctx, fmt.Errorf("block: %w", ctx.Err())); err == nil ||
		err.Error() != "interrupted: the same command goes on from the checkpoint "+checkpoint {
		t.Errorf("%v", err)
	}
	if err := f.explain(ctx, os.ErrClosed); err != os.ErrClosed {
		t.Errorf("%v", err)
	}
}
