package advise

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/xml"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/dense"
)

// The page has all of its parts, asks no network for anything, and its pictures are well-formed.
func TestWriteHTML(t *testing.T) {
	o := small
	o.Families, o.Couplings = []string{"positive", "hyperbolic"}, []string{"iid", "orthogonal"}
	o.Draws = 8
	r, err := Kernel(context.Background(), rows(60, 4, 1, flat(0.4)), rows(60, 4, 2, flat(0.4)), o)
	if err != nil {
		t.Fatal(err)
	}
	r.Reasons = append(r.Reasons, "<script>alert(1)</script>")
	var b bytes.Buffer
	if err := r.WriteHTML(&b); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for _, part := range []string{"Ranking", "Error against the number of features", "Predicted and measured error",
		"Error against the kernel", "Error against the angle", "Spectra", "Time of a token", "randfeat.New",
		"&lt;script&gt;"} {
		if !strings.Contains(page, part) {
			t.Errorf("no %q", part)
		}
	}
	for _, bad := range []string{"http://", "https://", "<script", "NaN"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	pictures := regexp.MustCompile(`base64,([A-Za-z0-9+/=]+)`).FindAllStringSubmatch(page, -1)
	if len(pictures) != 12 {
		t.Errorf("%d pictures, want 6 in two widths", len(pictures))
	}
	for _, p := range pictures {
		svg, err := base64.StdEncoding.DecodeString(p[1])
		if err != nil {
			t.Fatal(err)
		}
		d := xml.NewDecoder(bytes.NewReader(svg))
		for {
			if _, err := d.Token(); err == io.EOF {
				break
			} else if err != nil {
				t.Fatalf("%v in\n%s", err, svg)
			}
		}
	}
	// One set, as kernel machines have it, and a report in which nothing could take part.
	o.Families = append(o.Families, "nystrom")
	one, err := Kernel(context.Background(), rows(40, 4, 1, flat(0.4)), dense.Matrix[float64]{}, o)
	if err != nil {
		t.Fatal(err)
	}
	b.Reset()
	if err := one.WriteHTML(&b); err != nil ||
		!strings.Contains(b.String(), "nystrom (biased, fitted to rows)") {
		t.Errorf("Nyström features are not marked: %v", err)
	}
	o.Families, o.Positive = []string{"trig"}, true
	none, err := Kernel(context.Background(), rows(40, 4, 1, flat(0.4)), rows(40, 4, 2, flat(0.4)), o)
	if err != nil || len(none.Ranking) != 0 || len(none.Refused) != 2 {
		t.Fatalf("%+v, %v", none, err)
	}
	for _, r := range []*Report{one, none} {
		if err := r.WriteHTML(io.Discard); err != nil {
			t.Error(err)
		}
	}
}
