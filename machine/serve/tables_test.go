package serve

import (
	"net/http"
	"strings"
	"testing"

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
