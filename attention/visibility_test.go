package attention

import (
	"errors"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/dense"
)

func TestSegmentsMustBeNeighbours(t *testing.T) {
	for _, c := range []struct {
		ids  []int32
		want int
	}{
		{nil, -1},
		{[]int32{7}, -1},
		{[]int32{1, 1, 2, 5, 5}, -1},
		{[]int32{5, 5, 1, 1, 3}, -1},
		{[]int32{1, 2, 1}, 2},
		{[]int32{4, 3, 3, 9, 4}, 4},
		{[]int32{1, 3, 2, 3}, 3},
		{[]int32{2, 1, 5, 5, 5, 1}, 5},
	} {
		if got := secondRun(c.ids); got != c.want {
			t.Errorf("secondRun(%v) = %d, want %d", c.ids, got, c.want)
		}
	}
	v := Visibility{Segments: []int32{0, 0, 1, 1, 0, 2}}
	err := v.check(1, 6, 6)
	if !errors.Is(err, dense.ErrShape) || !strings.Contains(err.Error(), "query 4: segment 0 begins a second time") {
		t.Errorf("error = %v", err)
	}
}

func TestVisibilityShapes(t *testing.T) {
	for name, v := range map[string]Visibility{
		"mask":                {KeyMask: make([]bool, 5)},
		"segments":            {Segments: make([]int32, 5)},
		"key segments":        {Segments: make([]int32, 6), KeySegments: make([]int32, 7)},
		"only key segments":   {KeySegments: make([]int32, 8)},
		"segments for 6 of 8": {Segments: make([]int32, 6)},
	} {
		if err := v.check(2, 3, 4); !errors.Is(err, dense.ErrShape) {
			t.Errorf("%s: error = %v", name, err)
		}
	}
	v := Visibility{Segments: []int32{3, 3, 1}, KeySegments: []int32{1, 1, 2, 3}}
	if err := v.check(1, 3, 4); err != nil {
		t.Fatal(err)
	}
	want := []Span{{0, 2, 3, 4}, {2, 3, 0, 2}}
	got := v.Spans(nil, 0, 3, 4)
	if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("spans = %v, want %v", got, want)
	}
}
