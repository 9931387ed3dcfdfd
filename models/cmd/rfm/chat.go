package main

import (
	"bufio"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/randfeat/randfeat/internal/suggest"
	"github.com/randfeat/randfeat/models"
)

func chatCommand(e *env) *cobra.Command {
	var f generateFlags
	f.compact = 1
	cmd := &cobra.Command{
		Use:   "chat MODEL",
		Short: "Talk with a model",
		Long: `chat reads one message per line from stdin and prints the answer to each, in the conversation so far. The format is the
chat template in the model's files. An empty line does nothing; the end of the input (Ctrl-D) ends the conversation.`,
		Example: `  rfm chat smollm2.gguf --system "Answer in one sentence."`,
		Args:    suggest.Args("a model", 1, 1),
		RunE: do(func(cmd *cobra.Command, args []string) error {
			if err := f.check(); err != nil {
				return err
			}
			m, err := f.open(e, args[0])
			if err != nil {
				return err
			}
			defer m.Close()
			if err := m.Decoder.CanChat(); err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			return f.talk(cmd, e, m)
		}),
	}
	f.add(cmd)
	cmd.Flags().StringVar(&f.system, "system", "", "a `text` that tells the model how to answer")
	return cmd
}

// talk answers every line of stdin. Before each answer the session is kept, so the next turn reads only what is new.
func (f *generateFlags) talk(cmd *cobra.Command, e *env, m *models.Model) error {
	var list []models.Message
	var read []int32 // ids in s
	s, err := m.Decoder.Session()
	if err != nil {
		return err
	}
	in := bufio.NewScanner(e.stdin)
	in.Buffer(nil, maxLine)
	for in.Scan() {
		text := in.Text()
		if strings.TrimSpace(text) == "" {
			continue
		}
		if list == nil {
			list = f.messages(text)
		} else {
			list = append(list, models.Message{Role: "user", Content: text})
		}
		ids, err := m.Decoder.Chat(list, m.Decoder.Context()-1)
		if err != nil {
			return fmt.Errorf("%w: start again", err)
		}
		if len(ids) <= len(read) || !slices.Equal(ids[:len(read)], read) {
			read = nil // the template changed an earlier turn
			if s, err = m.Decoder.Session(); err != nil {
				return err
			}
		}
		if err := s.Read(cmd.Context(), ids[len(read):]); err != nil {
			return err
		}
		read = ids
		var answer strings.Builder
		if _, err := s.Fork().Generate(cmd.Context(), f.Generate, func(piece string) error {
			answer.WriteString(piece)
			if e.json {
				return nil
			}
			return e.piece(piece)
		}); err != nil {
			return err
		}
		list = append(list, models.Message{Role: "assistant", Content: answer.String()})
		if e.json {
			err = errors.Join(e.object(list[len(list)-1]), e.stdout.Flush())
		} else {
			err = e.endLine()
		}
		if err != nil {
			return err
		}
	}
	return in.Err()
}
