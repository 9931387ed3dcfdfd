package serve

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"net/http"
	"strconv"

	"github.com/randfeat/randfeat/internal/httpd"
	"github.com/randfeat/randfeat/models"
)

// EmbeddingsRequest is the body of /v1/embeddings.
type EmbeddingsRequest struct {
	Input      texts  `json:"input"`
	Model      string `json:"model"`
	Format     string `json:"encoding_format"` // float or base64
	Dimensions *int   `json:"dimensions"`      // of the embeddings: the first ones, see models.Shorten
	User       string `json:"user"`            // changes nothing
}

// EmbeddingsAnswer is the response of /v1/embeddings.
type EmbeddingsAnswer struct {
	Object string      `json:"object"`
	Data   []Embedding `json:"data"`
	Model  string      `json:"model"`
	Usage  Usage       `json:"usage"`
}

// Embedding is the embedding of one text: a list of numbers, or base64 of little-endian float32 numbers.
type Embedding struct {
	Object    string `json:"object"`
	Index     int    `json:"index"`
	Embedding any    `json:"embedding"`
}

// Usage counts tokens.
type Usage struct {
	PromptTokens     int `json:"prompt_tokens"`
	CompletionTokens int `json:"completion_tokens,omitempty"`
	TotalTokens      int `json:"total_tokens"`
}

func (s *Server) embeddings(w http.ResponseWriter, r *http.Request, body *httpd.Body) (answer func()) {
	var q EmbeddingsRequest
	if !decode(w, body, &q) {
		return nil
	}
	switch e := s.model.Encoder; {
	case e == nil:
		refuse(w, http.StatusNotFound, "model", "%s generates text and does not embed", s.opt.Name)
		return nil
	case len(q.Input) == 0 || len(q.Input) > s.opt.Limits.Texts:
		refuse(w, http.StatusBadRequest, "input", "%d texts, want 1 to %d", len(q.Input), s.opt.Limits.Texts)
		return nil
	case q.Format != "" && q.Format != "float" && q.Format != "base64":
		refuse(w, http.StatusBadRequest, "encoding_format", "%q, want float or base64", q.Format)
		return nil
	case q.Dimensions != nil && (*q.Dimensions < 1 || *q.Dimensions > e.Dim()):
		refuse(w, http.StatusBadRequest, "dimensions", "%d, want 1 to %d", *q.Dimensions, e.Dim())
		return nil
	}
	body.Shrink(len(body.Bytes)) // the texts are no longer
	return func() { s.embed(w, r, &q) }
}

// embed answers a request for embeddings.
func (s *Server) embed(w http.ResponseWriter, r *http.Request, q *EmbeddingsRequest) {
	done, err := turn(r.Context(), s.work)
	if err != nil {
		s.refuseError(w, err)
		return
	}
	defer done() // also after a panic
	x, n, err := s.model.Encoder.EmbedCount(r.Context(), q.Input)
	if err != nil {
		s.refuseError(w, err)
		return
	}
	if q.Dimensions != nil && *q.Dimensions < x.Cols {
		x = models.Shorten(x, *q.Dimensions)
	}
	if n.Long > 0 {
		w.Header().Set("Rfm-Long-Texts", strconv.Itoa(n.Long))
		s.long.Do(func() {
			s.opt.Log.Warn("texts are longer than a passage of the model: their embeddings are means of passages",
				"tokens", s.model.Encoder.Passage())
		})
	}
	tokens := n.Tokens
	a := EmbeddingsAnswer{Object: "list", Model: s.opt.Name, Usage: Usage{PromptTokens: tokens, TotalTokens: tokens}}
	for i := range x.Rows {
		var v any = x.Row(i)
		if q.Format == "base64" {
			b := make([]byte, 0, 4*x.Cols)
			for _, f := range x.Row(i) {
				b = binary.LittleEndian.AppendUint32(b, math.Float32bits(f))
			}
			v = base64.StdEncoding.EncodeToString(b)
		}
		a.Data = append(a.Data, Embedding{"embedding", i, v})
	}
	s.answer(w, a)
}
