/* Decodes from a prompt until the model ends: `decode TOKEN...` prints the tokens. The loop, its cache and its end are in one call; how
   many tokens there are only that call tells, so the output is counted first and then filled, and the arena grows with the cache. */
#include "decoder.h"

#include <stdio.h>
#include <stdlib.h>

static void *room(uint64_t bytes) {
  void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64 + 64);
  if (!memory) exit(1);
  return memory;
}

int main(int count, char **words) {
  int64_t n = count - 1, said = 0, rows[2];
  int64_t *prompt = room(n * sizeof *prompt);
  for (int64_t k = 0; k < n; k++) prompt[k] = atoll(words[1 + k]);

  const void *inputs[DECODER_INPUTS] = {[DECODER_INPUT_PROMPT] = prompt};
  anyshape_output outputs[DECODER_OUTPUTS] = {
      [DECODER_OUTPUT_SAID] = {0, 0, &said},
      [DECODER_OUTPUT_ROWS] = {rows, sizeof rows, 0},
  };
  anyshape_status status;
  uint64_t arena_bytes = decoder_arena_bytes(n);
  void *arena = room(arena_bytes);
  while (decoder_run(arena, arena_bytes, inputs, outputs, n, &status)) {
    if (status.code == ANYSHAPE_OUTPUT) {
      outputs[status.output].data = room(status.needed);
      outputs[status.output].bytes = status.needed;
    } else if (status.code == ANYSHAPE_ARENA) {
      free(arena);
      arena = room(arena_bytes = 2 * status.needed);
    } else {
      fprintf(stderr, "%s\n", status.text);
      return 1;
    }
  }
  const int64_t *tokens = outputs[DECODER_OUTPUT_SAID].data;
  for (int64_t k = 0; k < said; k++) printf("%lld%c", (long long)tokens[k], k + 1 < said ? ' ' : '\n');
  fprintf(stderr, "%lld tokens, %lld rows cached, an arena of %llu bytes\n", (long long)said, (long long)rows[0],
          (unsigned long long)arena_bytes);
  return 0;
}
