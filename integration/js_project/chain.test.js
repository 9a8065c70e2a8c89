// Builds on an answer: whoever gets another one asks something that nobody recorded.
test("builds on the answer", async () => {
  const roll = await ask.roll("Roll.");
  expect(await ask.roll(`In ${NAME} it was: ${roll} Roll again.`)).toContain("rolled");
});
