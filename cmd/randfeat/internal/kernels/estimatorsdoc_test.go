package kernels

import (
	"context"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/cmd/randfeat/internal/cli"
	"github.com/randfeat/randfeat/family"
)

// The table of errors in docs/estimators.md is the output of the demo.
func TestEstimatorsTable(t *testing.T) {
	b, err := os.ReadFile("../../../../docs/estimators.md")
	if err != nil {
		t.Fatal(err)
	}
	x, y, err := demoData()
	if err != nil {
		t.Fatal(err)
	}
	fitX, fitY, err := DemoFitData()
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile(`(?m)^\| \**([a-z-]+)[^|]*\|([^|]*)\|([^|]*)\|([^|]*)\|$`)
	checked := 0
	for _, match := range row.FindAllStringSubmatch(string(b), -1) {
		if !strings.Contains(match[2], "/") {
			continue
		}
		fam, err := demoFamily(infoOf(t, match[1]), fitX, fitY)
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range []string{"iid", "orthogonal", "simplex"} {
			cell := DemoCell{Family: match[1], Coupling: c, Seed: cli.DefaultSeed, Draws: demoDraws}
			if err := demoCell(context.Background(), &cell, fam, DemoM, x, y); err != nil {
				t.Fatal(err)
			}
			got := strings.Split(strings.NewReplacer("*", "", " ", "").Replace(match[2+i]), "/")
			near(t, got[0], cell.Predicted, cell)
			near(t, got[1], cell.Measured, cell)
			checked++
		}
	}
	if checked != 15 {
		t.Errorf("%d cells found in docs/estimators.md, want 15", checked)
	}
}

// near compares with a number of two printed digits.
func near(t *testing.T, got string, want *float64, cell DemoCell) {
	t.Helper()
	if want == nil {
		if got != "–" {
			t.Errorf("docs/estimators.md says %s for %s with %s, the demo has no number", got, cell.Family, cell.Coupling)
		}
		return
	}
	v, err := strconv.ParseFloat(got, 64)
	if err != nil || math.Abs(v-*want) > 0.06**want {
		t.Errorf("docs/estimators.md says %s for %s with %s, the demo %.3g", got, cell.Family, cell.Coupling, *want)
	}
}

func infoOf(t *testing.T, name string) family.Info {
	t.Helper()
	for _, i := range family.List() {
		if i.Name == name {
			return i
		}
	}
	t.Fatalf("no family %q", name)
	return family.Info{}
}
