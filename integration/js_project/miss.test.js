test("catches it", async () => {
  expect(await ask.roll("Never asked.").catch(() => "no matter")).toBe("no matter");
});

test("does not catch it", async () => {
  await ask.greet("Never asked, either.");
});

test("asks nothing", () => {});
