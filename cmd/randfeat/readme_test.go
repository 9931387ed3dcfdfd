package main

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// The table that opens the README is what the demo computes.
func TestReadmeTable(t *testing.T) {
	b, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	x, y, err := demoData()
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile(`(?m)^\| \**([a-z-]+)[^|]*\|([^|]*)\|([^|]*)\|([^|]*)\|$`)
	checked := 0
	for _, match := range row.FindAllStringSubmatch(string(b), -1) {
		if !strings.Contains(match[2], "/") {
			continue
		}
		fam, err := demoFamily(match[1], x, y)
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range []string{"iid", "orthogonal", "simplex"} {
			cell := DemoCell{Family: match[1], Coupling: c, Seed: defaultSeed, Draws: demoDraws}
			if err := demoCell(context.Background(), &cell, fam, demoM, x, y); err != nil {
				t.Fatal(err)
			}
			predicted := "–"
			if cell.Predicted != nil {
				predicted = twoDigits(*cell.Predicted)
			}
			got := strings.NewReplacer("*", "", " ", "").Replace(match[2+i])
			if want := predicted + "/" + twoDigits(*cell.Measured); got != want {
				t.Errorf("README says %s for %s with %s, the demo %s", got, match[1], c, want)
			}
			checked++
		}
	}
	if checked != 15 {
		t.Errorf("%d cells found in the README, want 15", checked)
	}
}

// twoDigits keeps trailing zeros, as the README does.
func twoDigits(v float64) string {
	return strings.TrimSuffix(fmt.Sprintf("%#.2g", v), ".")
}
