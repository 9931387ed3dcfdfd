package serve

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/machine"
)

// Text that is not UTF-8 is refused with its place, in every format: a level would otherwise become another.
func TestNotUTF8(t *testing.T) {
	s := serverOf(t, fitted(t, machine.KindRidge, 1), Options{})
	row := table(9, 1, false)
	for content, body := range map[string]string{
		"application/json": objectsBody(row), "text/csv": string(csvOf(row)),
		"application/x-ndjson": object(row[0]) + "\n",
	} {
		at := strings.LastIndex(body, row[0][1])
		w := post(s, "/v1/predict", content, body[:at]+"\xe9"+body[at+1:])
		if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "not UTF-8") {
			t.Errorf("%s: %d %s", content, w.Code, w.Body)
		}
	}
}

// Identifiers are answered as they were sent.
func TestIdentifiersComeBack(t *testing.T) {
	m := fitted(t, machine.KindRidge, 1)
	m.Schema.IDs = append(m.Schema.IDs, "key")
	s := serverOf(t, m, Options{})
	row := object(table(9, 1, false)[0])
	for _, key := range []string{"9007199254740993", `"007"`, "true", "1.50", "null"} {
		body := `{"rows":[` + strings.TrimSuffix(row, "}") + `,"key":` + key + `}]}`
		if w := post(s, "/v1/predict", "application/json", body); !strings.Contains(w.Body.String(), `"key":`+key+`,`) {
			t.Errorf("%s: %s", key, w.Body)
		}
	}
}

// Rows unlike those of the fit are counted by column; strict, they are refused.
func TestSurprises(t *testing.T) {
	m := fitted(t, machine.KindRidge, 1)
	row := table(9, 1, false)[0]
	row[1], row[4] = "1e6", "other" // a, and note, which is always the same
	body := `{"rows":[` + object(row) + `]}`
	s := serverOf(t, m, Options{})
	for range 2 {
		if w := post(s, "/v1/predict", "application/json", body); w.Code != http.StatusOK {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	}
	for what, n := range map[string]float64{
		`randfeat_surprises_total{column="a",what="above"}`:      2,
		`randfeat_surprises_total{column="note",what="changed"}`: 2} {
		if got := counted(t, s, what); got != n {
			t.Errorf("%s is %g, want %g", what, got, n)
		}
	}
	strict := serverOf(t, m, Options{Strict: true})
	w := post(strict, "/v1/predict", "application/json", body)
	if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "the end of the training range") ||
		!strings.Contains(w.Body.String(), `"row":1`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := post(strict, "/v1/predict", "text/csv", string(csvOf(table(1, 3, false)))); w.Code != http.StatusOK {
		t.Errorf("rows of the fit: %s", w.Body)
	}
}

// Clients are told of the surprises in their own rows, whoever else's were predicted with them.
func TestSurprisesAreTold(t *testing.T) {
	m := fitted(t, machine.KindRidge, 1)
	s := serverOf(t, m, Options{Limits: Limits{Batch: 2}})
	rows := table(9, 5, false)
	rows[2][1], rows[3][1], rows[3][4] = "1e6", "1e6", "other"
	w := post(s, "/v1/predict", "application/json", objectsBody(rows))
	want := `],"surprises":[{"column":"a","what":"above","rows":2,"where":"row 3","known":`
	if got := w.Body.String(); !strings.Contains(got, want) || !strings.Contains(got,
		`{"column":"note","what":"changed","rows":1,"where":"row 4","known":"`) {
		t.Errorf("%s", got)
	}
	for _, content := range []string{"application/json", "text/csv"} {
		body := objectsBody(rows)
		if content == "text/csv" {
			body = string(csvOf(rows))
		}
		if h := post(s, "/v1/predict", content, body).Header().Get(surprisesHeader); h != "3" {
			t.Errorf("%s: %q surprises in the header", content, h)
		}
	}
	w = post(s, "/v1/predict", "application/json", objectsBody(rows[:2]))
	if _, ok := w.Header()[surprisesHeader]; ok || strings.Contains(w.Body.String(), "surprises") {
		t.Errorf("none: %v %s", w.Header(), w.Body)
	}
	form := url.Values{"rows": {string(csvOf(rows))}, "answer": {"table"}}
	if got := post(s, "/", "application/x-www-form-urlencoded", form.Encode()).Body.String(); !strings.Contains(got,
		"<li>column &#34;a&#34;: 2 values above ") || !strings.Contains(got, "; the first at row 3</li>") {
		t.Errorf("the page: %s", got)
	}

	d := s.current.Load()
	b, err := d.batcher(machine.TableOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var batch []*job // of one request each, predicted together
	for i := range rows {
		in, _, err := openRows([]byte(objectsBody(rows[i:i+1])), typeJSON, d, b.kinds)
		if err != nil {
			t.Fatal(err)
		}
		j := newJob(new(data.Block), new(data.Block))
		if err := in.read(j.in, 1); err != nil {
			t.Fatal(err)
		}
		batch = append(batch, j)
	}
	b.serve(batch)
	for i, n := range []int{0, 0, 1, 2, 0} {
		if j := batch[i]; j.err != nil || len(j.surprises) != n || n > 0 && (j.surprises[0].Rows != 1 ||
			j.surprises[0].row != 0 || j.surprises[0].Column != "a") {
			t.Errorf("request %d: %+v, %v", i, j.surprises, j.err)
		}
	}
}
