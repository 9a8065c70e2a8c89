package dice

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/anthropics/anthropic-sdk-go/v2"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/v2/option"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

// llama.cpp takes another seed for each call.
const random = 4294967295

func roll(client openai.Client, text string) (string, error) {
	answer, err := client.Chat.Completions.New(context.Background(), openai.ChatCompletionNewParams{
		Model:               os.Getenv("CLIENT_MODEL"),
		Seed:                openai.Int(random),
		Temperature:         openai.Float(1),
		MaxCompletionTokens: openai.Int(16),
		Messages:            []openai.ChatCompletionMessageParamUnion{openai.UserMessage("#dice " + text)},
	})
	if err != nil {
		return "", err
	}
	return answer.Choices[0].Message.Content, nil
}

// Four tests at once: each rolls twice, and asks something that is made of both rolls.
func TestRolls(t *testing.T) {
	for i := range 4 {
		t.Run(fmt.Sprintf("test %d", i), func(t *testing.T) {
			t.Parallel()
			client := openai.NewClient(option.WithHTTPClient(replayClient(t)))
			first, err := roll(client, "Roll.")
			if err != nil {
				t.Fatal(err)
			}
			second, _ := roll(client, "Roll.")
			if _, err := roll(client, fmt.Sprintf("%d got %s %s", i, first, second)); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestClaude(t *testing.T) {
	client := anthropic.NewClient(anthropicoption.WithHTTPClient(replayClient(t)))
	_, err := client.Messages.New(context.Background(), anthropic.MessageNewParams{
		Model:     anthropic.Model(os.Getenv("CLIENT_MODEL")),
		MaxTokens: 16,
		Messages:  []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("Hi."))},
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestCatchesIt(t *testing.T) {
	if os.Getenv("ASK_MORE") == "" {
		t.Skip("it asks what nobody recorded")
	}
	_, _ = roll(openai.NewClient(option.WithHTTPClient(replayClient(t))), "Never asked.")
}
