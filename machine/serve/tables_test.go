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
		"application/json": objectsBody(row), "text/csv": string(csvOf(row)), "application/x-ndjson": object(row[0]) + "\n",
	} {
		at := strings.LastIndex(body, row[0][1])
		w := post(s, "/v1/predict", content, body[:at]+"\xe9"+body[at+1:])
		if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "not UTF-8") {
			t.Errorf("%s: %d %s", content, w.Code, w.Body)
		}
	}
}
